"""Language models as policies: one chat at a time, or many in one batch."""
