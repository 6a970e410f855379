"""The schema's history; alembic finds it by its path."""
