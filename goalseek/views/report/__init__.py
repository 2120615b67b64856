"""The morning report: the figures of a night, and how a page, a plot and a pull request's text show them."""
