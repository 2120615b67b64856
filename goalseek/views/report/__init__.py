"""The report: one fold over the records, and the page, the text and the plot that are drawn from it.

It imports what ``views`` may import.
"""
