"""Output for people and programs: lines, live panel, pages of records, events; the report is in ``report``."""
