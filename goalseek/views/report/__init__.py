"""The report: figures folded from the records, and the HTML page, Markdown text and SVG plot made of them.

It may import what ``views`` may import.
"""
