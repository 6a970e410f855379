"""One module a migration, chained by `down_revision`."""
