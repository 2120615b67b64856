"""The seven phases: plain functions, typed values in and out, one file each."""
