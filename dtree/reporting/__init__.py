"""What people see: Matplotlib pictures (`plots`, `plots_runs`) and one self-contained HTML page per run (`html`).

`subject` turns any fitted model into one shape, `sections_*` each make one part of the page from it, `html` puts the
parts together. A new part of the page is one function `Subject -> Section | None` and one line in `html.BUILDERS`.
"""
