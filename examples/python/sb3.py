"""Train stable-baselines3's PPO on the crash environment, as on any Gymnasium environment."""

from stable_baselines3 import PPO

import playproof

env = playproof.make_env("crash", world="drift", observation="policy", actions="buttons")
model = PPO("MlpPolicy", env, n_steps=256, batch_size=64, n_epochs=1, seed=1, device="cpu")
model.learn(512)

observation, _ = env.reset(seed=2)
total, done = 0.0, False
while not done:
    action, _ = model.predict(observation, deterministic=True)
    observation, reward, terminated, truncated, info = env.step(action)
    total, done = total + float(reward), terminated or truncated
print(f"one round: reward {total:+.4f}")
