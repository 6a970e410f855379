"""The dashboard: everything of a home on one page, live.

Pages are functions that give plain records; one template draws them all, so that they read without JavaScript.
`access` says who may do what, `tables` gives every table as page, CSV and JSON by one query, `live` sends what is new.
What a person asks for becomes a job (playproof.operate.jobs).
"""
