# expect: steps=48 epochs=12 micro=1
"""Reinforcement learning: rollouts without gradients, then several passes over the buffer; no loader."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 2))
value = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=3e-3)


def play(state, action):
    """A cart on a line: push left or right, be rewarded for staying near the middle."""
    push = action.float() * 2 - 1
    speed = 0.9 * state[:, 1] + 0.1 * push
    place = state[:, 0] + speed
    return torch.stack([place, speed, torch.ones_like(place)], 1), 1 - place.abs()


for update in range(6):
    state, states, actions, rewards, before = torch.zeros(16, 3), [], [], [], []
    with torch.no_grad():
        for _ in range(16):
            choice = torch.distributions.Categorical(logits=policy(state))
            action = choice.sample()
            states.append(state), actions.append(action), before.append(choice.log_prob(action))
            state, reward = play(state, action)
            rewards.append(reward)
    states, actions, before = torch.cat(states), torch.cat(actions), torch.cat(before)
    returns = torch.stack(rewards).flip(0).cumsum(0).flip(0).reshape(-1)
    for _ in range(2):
        for part in torch.randperm(len(states)).split(64):
            choice = torch.distributions.Categorical(logits=policy(states[part]))
            guess = value(states[part]).squeeze(1)
            gain = returns[part] - guess.detach()
            ratio = (choice.log_prob(actions[part]) - before[part]).exp()
            loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean() + 0.5 * (guess - returns[part]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
            print(loss.item().hex())
