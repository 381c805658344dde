"""`replay`: the rows of a lake or of files, written to topics: keyed, ordered per key, each row once.

The contract that holds it together:

- A row belongs to one task, by the hash of its key; a task's rows have one order, the same in every run (`recipe`).
- A task writes in transactions under an id of its own, and each transaction carries the number of rows done, in the
  task's partition of the job's progress topic (`progress`): rows and progress are committed together or not at all.
- Whoever takes the task over (a retry of Spark's, its speculative twin, the next start of the job) first fences the
  one before, then reads that number and goes on after it (`task`, `writer`).
- The first start of a job writes down what it reads and how; a later start that would read anything else is refused
  (`source`, `job`), and so is a task that finds other rows than were written (`writer`).
"""
