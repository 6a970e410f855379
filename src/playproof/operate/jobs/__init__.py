"""Jobs: command lines that a worker runs for somebody, whatever is killed meanwhile.

`commands` says which command lines may be run, `queue` keeps them in the table `job`, `worker` runs them, `runner`
stands between the worker and the command so that a job outlives its worker.
"""
