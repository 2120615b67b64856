"""The manifest: its tables and fields, the rules between keys, and how the file is read and checked."""
