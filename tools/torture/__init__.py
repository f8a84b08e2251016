"""Writers that are killed, and what must be left of their sessions.

A child process performs a workload that its seed determines and acknowledges each call on a pipe.
The parent kills it at a random moment and compares the session with what was acknowledged.
"""
