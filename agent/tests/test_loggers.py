"""The doors of the loggers themselves, where they are installed: test_logged.py holds the same of modules of their shape.

What each keeps in its own files is the oracle of what is told."""

import subprocess
import sys
import textwrap

import pytest
from test_logged import told

pytestmark = pytest.mark.full_set

LOOP = """
    import torch
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for i in range(4):
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).square().mean()
        loss.backward()
        optimizer.step()
        log(i, loss)
    print(model.weight.tolist(), torch.rand(2).tolist())
"""


def both(watch, code):
    """Run the code bare and watched; what was told. The two print the same."""
    code = textwrap.dedent(code).lstrip("\n")
    bare = subprocess.run([sys.executable, "-c", "\n" + code], capture_output=True, text=True)
    assert bare.returncode == 0, bare.stderr
    watched = watch(code)
    assert watched.printed == bare.stdout.splitlines()
    assert not watched.all("trouble")
    return told(watched)


def steps(found, key):
    return [(step, own) for step, own, _ in found[key]]


@pytest.mark.parametrize("module", ["torch.utils.tensorboard", "tensorboardX"])
def test_tensorboard(watch, tmp_path, module):
    pytest.importorskip("tensorboard" if module.startswith("torch") else module)
    found = both(watch, """
        from %s import SummaryWriter
        writer = SummaryWriter(%r)
        def log(i, loss):
            writer.add_scalar("loss", loss, 10 * i)
            writer.add_scalars("pair", {"a": i, "b": loss}, i)
            writer.add_histogram("weights", model.weight, i)
        """ % (module, str(tmp_path)) + textwrap.indent(textwrap.dedent(LOOP), " " * 8) + "        writer.close()\n")
    assert steps(found, ("TensorBoard", "loss")) == [(1, 0), (2, 10), (3, 20), (4, 30)]
    assert [value for _, _, value in found["TensorBoard", "pair/a"]] == [0, 1, 2, 3]
    assert found["TensorBoard", "pair/b"][3][2] == found["TensorBoard", "loss"][3][2]
    assert set(found) == {("TensorBoard", n) for n in ("loss", "pair/a", "pair/b")} | {("optimizer", "lr SGD")}


def test_mlflow(watch, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    found = both(watch, """
        import mlflow
        mlflow.set_tracking_uri("file://%s/runs")
        mlflow.start_run()
        def log(i, loss):
            mlflow.log_metric("loss", loss.detach(), step=10 * i)
            mlflow.log_metrics({"other": i, "another": 2.5}, step=i)
        """ % tmp_path + textwrap.indent(textwrap.dedent(LOOP), " " * 8) + "        mlflow.end_run()\n")
    kept = list(tmp_path.glob("runs/*/*/metrics/loss"))
    assert len(kept) == 2, "of the bare run and of the watched one"
    for file in kept:
        values = [float(line.split()[1]) for line in file.read_text().splitlines()]
        assert [value for _, _, value in found["MLflow", "loss"]] == values
    assert steps(found, ("MLflow", "loss")) == [(1, 0), (2, 10), (3, 20), (4, 30)]
    assert found["MLflow", "other"] == [(1, 0, 0.0), (2, 1, 1.0), (3, 2, 2.0), (4, 3, 3.0)]


def test_wandb(watch, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    found = both(watch, """
        import wandb
        run = wandb.init(mode="offline", dir=%r, project="p")
        def log(i, loss):
            wandb.log({"loss": loss, "deep": {"er": i}, "text": "no"}, step=10 * i)
            if i == 3:
                run.log({"own": 1.5})
        """ % str(tmp_path) + textwrap.indent(textwrap.dedent(LOOP), " " * 8) + "        run.finish()\n")
    assert steps(found, ("W&B", "loss")) == [(1, 0), (2, 10), (3, 20), (4, 30)]
    assert found["W&B", "deep.er"][3] == (4, 30, 3.0) and found["W&B", "own"] == [(4, None, 1.5)]


def test_lightning(watch, tmp_path):
    pytest.importorskip("lightning")
    found = both(watch, """
        import logging, warnings
        warnings.filterwarnings("ignore")
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        import lightning, torch
        from lightning.pytorch.loggers import CSVLogger
        class Net(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)
            def training_step(self, batch, _):
                loss = self.layer(batch[0]).square().mean()
                self.log("loss", loss)
                return loss
            def validation_step(self, batch, _):
                self.log("accuracy", torch.tensor(0.25))
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)
        lightning.seed_everything(0, verbose=False)
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 2)), batch_size=2)
        loggers = [CSVLogger(%r), CSVLogger(%r)]
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=loggers, log_every_n_steps=1,
                                    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
        net = Net()
        trainer.fit(net, data, data)
        print(net.layer.weight.tolist(), torch.rand(2).tolist())
        """ % (str(tmp_path / "a"), str(tmp_path / "b")))
    rows = [line.split(",") for line in next((tmp_path / "a").glob("**/metrics.csv")).read_text().splitlines()]
    losses = [float(row[rows[0].index("loss")]) for row in rows[1:] if row[rows[0].index("loss")]]
    assert [value for _, _, value in found["Lightning", "loss"]] == losses, "once, though there are two loggers"
    assert len(losses) == 8 and [own for _, own, _ in found["Lightning", "loss"]] == list(range(8))
    assert [value for _, _, value in found["Lightning", "accuracy"]] == [0.25, 0.25]


def test_trainer(watch, tmp_path):
    pytest.importorskip("transformers")
    found = both(watch, """
        import os
        os.environ["HF_HUB_OFFLINE"] = "1"
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments, set_seed, logging
        logging.set_verbosity_error()
        class Tokens(torch.utils.data.Dataset):
            def __len__(self):
                return 12
            def __getitem__(self, i):
                return {"input_ids": torch.arange(16) %% 7, "labels": torch.arange(16) %% 7}
        set_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=1, n_head=2))
        args = TrainingArguments(output_dir=%r, num_train_epochs=2, per_device_train_batch_size=4, logging_steps=2,
                                 save_strategy="no", report_to=%r, use_cpu=True, disable_tqdm=True)
        trainer = Trainer(model=model, args=args, train_dataset=Tokens())
        trainer.remove_callback(PrinterCallback)  # prints times
        trainer.train()
        for row in trainer.state.log_history:
            if "loss" in row:
                print(row["step"], row["loss"])
        """ % (str(tmp_path), ["tensorboard"] if _tensorboard() else []))
    assert steps(found, ("Trainer", "loss")) == [(2, 2), (4, 4), (6, 6)]
    assert not [door for door, _ in found if door == "TensorBoard"], "kept once, under the Trainer's names"
    rates = [value for _, _, value in found["Trainer", "learning_rate"]]
    assert rates == [value for step, _, value in found["optimizer", "lr AdamW"] if step % 2 == 0]


def _tensorboard():
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        return False
    return True
