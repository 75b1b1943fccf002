"""The scikit-learn faces, one explicit class each, on one base: fit = drive(method, rows, settings, place)."""
