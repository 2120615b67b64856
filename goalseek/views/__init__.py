"""Output for people and programs: lines, live panel, pages of records, events; the report is in ``report``.

It may import ``project`` and what that may import; never ``evaluation`` or ``loop``.
"""
