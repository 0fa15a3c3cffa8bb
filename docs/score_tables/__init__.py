"""The tables of docs/scores.md, each from the JSON document that it is of."""
