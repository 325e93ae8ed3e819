# expect: steps=20 epochs=2 micro=1
"""Lightning's Trainer, with validation after each epoch."""
import logging
import warnings

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.cross_entropy(self.layers(x), y)
        print(float(loss.detach()).hex())
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("accuracy", (self.layers(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main():
    torch.set_num_threads(1)
    lightning.seed_everything(0, verbose=False)
    data = TensorDataset(torch.randn(80, 12), torch.randint(0, 3, (80,)))
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
    trainer.fit(Net(), DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=16))


if __name__ == "__main__":
    main()
