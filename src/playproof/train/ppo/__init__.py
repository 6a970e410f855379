"""PPO: configuration, loop, loss, callbacks, restarts and resume state."""
