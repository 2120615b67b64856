"""A model server for tests: it speaks what coding agents speak, and plays a script instead of thinking."""
