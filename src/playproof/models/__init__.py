"""The model registry: versions of trained models kept by content, aliases that point at them, and who moved them.

`registry` keeps versions and pointers, `gates` decides who may be promoted, `files` keeps the checkpoints, `hooks`
tells others of a change, `benchmarks` reads what the arena's benchmark wrote.
"""
