"""Pages: documents, tables and figures as text, HTML and LaTeX."""
