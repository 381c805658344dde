"""The coordinator runtime: replicated state machines on internal topics (Kafka's coordinator-common).

The contract, for authors of a state machine
--------------------------------------------
One internal partition has one `CoordinatorContext` (an actor), which drives one `CoordinatorShard` (the state machine).
The names are those of Kafka's CoordinatorRuntime. Everything that happens to the shard is an *operation*: a function
`operation(state) -> Outcome` that never awaits, where `state` is the shard. Requests come in by

    future = runtime.write(partition, lambda state: state.join(request))     # asyncio.Future of the answer

and an operation that arrives while another runs (from its effects, say) waits in the mailbox until that one is done.

    Outcome(records=(), reply=None, effects=None, transaction=None, atomic=True)

- **The operation** looks at the state and decides. It never changes durable state: that is what `records` are for. To
  refuse, it raises a `KafkaError`.
- **records** (`CoordinatorRecord(schema, key, value)`; value None is a tombstone) are appended as one batch, and then
  each is applied by its row's `replay(state, key, value, position)`, the same function that loading calls. Only replay
  changes durable state. `transaction=ProducerEpoch(id, epoch)` makes the batch part of that producer's transaction;
  replay then finds `position.producer_id` set. `runtime.end_transaction(...)` appends the marker and applies it with
  `state.replay_end_marker`. `atomic=False` lets a long list of records be split into several batches.
- **effects** is `effects(error: KafkaError | None) -> None`, for soft state: who waits, timers, pending members. It
  runs right after replay with None, or with the (translated) error if the append failed; then nothing was written or
  replayed (with `atomic=False`, nothing from the failed batch on). It does not run if the log went offline and the
  state is already thrown away. It may answer waiters, set timers, and `context.tell(operation)` what is to happen next.
- **reply** is the answer, or a `Waiter` when the answer comes by a later operation:

    waiter = context.waiter()            # in the operation
    return Outcome(reply=waiter, effects=lambda error: group.park(waiter) if error is None else None)
    ...
    waiter.answer(response)              # in the effects of a later operation (or `waiter.fail(KafkaError)`)

  Answers (errors and waiters' answers too) are held back until the high watermark has passed everything written so
  far: nothing that may still be lost is ever answered. `waiter.answered` tells whether it was answered; answering twice
  is harmless. A waiter whose own operation fails gets that error automatically.
- **Timers** are messages: `context.timers.schedule(key, delay_ms, operation)` runs `operation(state)` like any other,
  unless the key was cancelled or rescheduled in between (`cancel(key)`). The key identifies what the timer is for, as
  in ("heartbeat", group id, member id). `context.clock.wall_ms()` is the time.
- **When an append fails** (records too large, a fenced producer, a full disk) only that operation fails; nothing of it
  is in the log. When the log goes offline, every held-back answer fails with one translated error, waiters fail with
  NOT_COORDINATOR, timers are cancelled, the state is thrown away, and the context loads a new one. The same on an
  exception in an append, replay or effects (a bug; logged). While loading, requests get COORDINATOR_LOAD_IN_PROGRESS;
  with no context here, NOT_COORDINATOR.

A new `CoordinatorShard` is made for each load by `new_state(context)`; `loaded()` is called when all records
have been replayed (set timers there, not before), `unloaded()` when it is given up. Its record types are one table,
`rows_by_id((RecordRow(schema, replay), ...))`, whose schemas are in `protocol/coordinator_records`.
"""
