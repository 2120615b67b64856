"""The report: figures folded from the records, and the HTML page and Markdown text made of them."""
