"""What people see: lines, the live screen, pages of records, and in ``report`` the report.

It imports the floors up to project; never evaluation or loop.
"""
