"""`replay` writes the rows of a lake or of files to topics: keyed, in order per key, each row once.

The contract that holds it together:

- A row belongs to one task, by the hash of its key; a task's rows have one order, the same in every run (`recipe`).
- A task writes in transactions under its own id. Each transaction also writes the number of rows done to the task's
  partition of the job's progress topic (`progress`): rows and progress are committed together or not at all.
- Whoever takes over a task (a retry of Spark's, its speculative twin, the next start of the job) first fences its
  predecessor, then reads that number and goes on after it (`task`, `writer`).
- The first start of a job records what it reads and how; a later start that would read anything else is refused
  (`source`, `job`), and so is a task that finds other rows than were written (`writer`).
"""
