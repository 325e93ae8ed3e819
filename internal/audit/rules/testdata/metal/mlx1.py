import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3)
        self.fc = nn.Linear(16, 10)

    def __call__(self, x):
        return self.fc(self.conv1(x).mean((1, 2)))  # sure: mlx-channels-first


def loss_fn(model, x, y):
    return nn.losses.cross_entropy(model(x), y).mean()


model = Net()
opt = optim.Adam(learning_rate=1e-3)
step = nn.value_and_grad(model, loss_fn)


def train(batches):
    for x, y in batches:
        loss, grads = step(model, x, y)
        opt.update(model, grads)  # sure: mlx-without-eval


img = mx.random.normal((8, 3, 32, 32))
model(img)
c = nn.Conv2d(in_channels=3, out_channels=4, kernel_size=3)
c(mx.zeros((1, 3, 8, 8)))  # sure: mlx-channels-first
