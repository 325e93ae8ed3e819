"""Levers in real front ends, unmodified: whether the batch is set, the order kept, and what cannot be done is said."""


import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.full_set

HEAD = """
    import sys
    import torch
    from torch import nn
    from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler, TensorDataset
    torch.manual_seed(1)
    order = []
    class Rows(Dataset):
        def __len__(self):
            return 50
        def __getitem__(self, i):
            if not 0 <= i < 50:
                raise IndexError(i)
            order.append(i)
            return torch.full((4,), float(i)), i % 3
    def sizes(rows):  # of an epoch in batches of so many
        return [rows] * (50 // rows) + ([50 % rows] if 50 % rows else [])
"""


@pytest.fixture
def front(watch):
    """front(code, **levers): the lines that it printed, and the answers without places."""

    def run(code, **levers):
        seen = watch(HEAD + code, levers=levers)
        return seen.printed, [{k: v for k, v in e.items() if k not in ("ev", "where")} for e in seen.all("lever")], seen

    return run


TRAINER = """
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
    class Sentences(Rows):
        def __getitem__(self, i):
            super().__getitem__(i)
            return {"input_ids": [5 + i] * (3 + i % 7), "labels": i % 2}
    def collate(rows):
        longest = max(len(r["input_ids"]) for r in rows)
        ids = torch.tensor([r["input_ids"] + [0] * (longest - len(r["input_ids"])) for r in rows])
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor([r["labels"] for r in rows])}
    given = []
    class Model(BertForSequenceClassification):
        def forward(self, input_ids=None, attention_mask=None, labels=None):
            if self.training:
                given.append(len(input_ids))
                if len(input_ids) > MOST:
                    raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, labels=labels)
    MOST = 1000
    def trainer(kind=Trainer, **options):
        model = Model(BertConfig(vocab_size=100, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8))
        options = dict(dict(output_dir="FOLDER", report_to=[], disable_tqdm=True, use_cpu=True, seed=1, save_strategy="no", logging_strategy="no",
                            per_device_train_batch_size=4, num_train_epochs=1), **options)
        data = Sentences()
        return kind(model, TrainingArguments(**options), train_dataset=data, eval_dataset=data, data_collator=collate)
"""


def test_trainer(front, tmp_path):
    pytest.importorskip("transformers")
    code = TRAINER.replace("FOLDER", str(tmp_path)) + """
    trainer(save_strategy="epoch", eval_strategy="epoch").train()
    print(order[:50], given == sizes(ROWS))
    """
    bare = front(code.replace("ROWS", "4"))
    pulled = front(code.replace("ROWS", "8"), batch=8)
    assert pulled[0][-1] == bare[0][-1] and bare[0][-1].endswith("True")
    assert pulled[1] == [{"lever": "batch", "done": True, "from": 4, "to": 8}]
    assert [(e["evaluated"], e["saved"]) for e in pulled[2].all("reached")][-1] == (True, True)


def test_trainer_by_length(front, tmp_path):
    pytest.importorskip("transformers")
    printed, levers, _ = front(TRAINER.replace("FOLDER", str(tmp_path)) + """
    import inspect
    name = "train_sampling_strategy" if "train_sampling_strategy" in inspect.signature(TrainingArguments).parameters else ""
    trainer(**({name: "group_by_length"} if name else {"group_by_length": True})).train()
    print(given == sizes(8))
    """, batch=8)
    assert printed[-1] == "True"
    assert levers == [{"lever": "batch", "done": True, "from": 4, "to": 8}]


def test_trainer_that_would_find_its_own_batch(front, tmp_path):
    """It catches the error and goes on with less: asked for was this batch."""
    pytest.importorskip("transformers")
    printed, levers, seen = front(TRAINER.replace("FOLDER", str(tmp_path)) + """
    MOST = 6
    try:
        trainer(auto_find_batch_size=True).train()
    except RuntimeError as error:
        print(error, given)
    """, batch=16)
    assert printed[-1] == "CUDA out of memory. Tried to allocate 2 GiB [16]"
    assert seen.one("out_of_memory")["count"] == 1


def test_trainer_with_a_loader_of_its_own(front, tmp_path):
    pytest.importorskip("transformers")
    printed, levers, _ = front(TRAINER.replace("FOLDER", str(tmp_path)) + """
    class Mine(Trainer):
        def get_train_dataloader(self):
            return DataLoader(self.train_dataset, batch_size=5, shuffle=True, collate_fn=collate)
    trainer(Mine).train()
    print(given == sizes(5))
    """, batch=8)
    assert printed[-1] == "True"
    assert [(e["done"], e.get("why")) for e in levers] == [
        (True, None),
        (False, "it gives batches of 5 rows, and does not go by TrainingArguments.per_device_train_batch_size")]


def test_trainer_with_fewer_rows(front, tmp_path):
    pytest.importorskip("transformers")
    _, levers, _ = front(TRAINER.replace("FOLDER", str(tmp_path)) + "    trainer().train()\n", batch=64)
    assert (False, "the data has 50 rows, fewer than a batch of 64") in [(e["done"], e.get("why")) for e in levers]


LIGHTNING = """
    import lightning as L
    given = []
    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 3)
        def training_step(self, batch, at):
            given.append(len(batch[0]))
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        def validation_step(self, batch, at):
            self.net(batch[0])
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)
    class Data(L.LightningDataModule):
        def __init__(self, batch_size: int = 4):
            super().__init__()
            self.batch_size = batch_size
        def train_dataloader(self):
            return DataLoader(Rows(), batch_size=self.batch_size, shuffle=True)
        def val_dataloader(self):
            return DataLoader(TensorDataset(torch.zeros(6, 4)), batch_size=self.batch_size)
    options = dict(max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=%r)
"""


@pytest.mark.parametrize("fit", [
    "L.Trainer(**options, enable_checkpointing=True).fit(Module(), Data())",
    "L.Trainer(**options, strategy='ddp', devices=1).fit(Module(), Data())",
    """
    from lightning.pytorch.cli import LightningCLI
    sys.argv = ["cli", "fit", "--data.batch_size", "4"]
    LightningCLI(Module, Data, trainer_defaults=options)
    """,
])
def test_lightning(front, tmp_path, fit):
    pytest.importorskip("lightning")
    if "CLI" in fit:
        pytest.importorskip("jsonargparse")
    code = LIGHTNING % str(tmp_path) + "    " + fit.strip() + "\n    print(order, given == sizes(%d))\n"
    bare = front(code % 4)
    pulled = front(code % 16, batch=16)
    assert pulled[0][-1] == bare[0][-1] and bare[0][-1].endswith("True")
    assert pulled[1] == [{"lever": "batch", "done": True, "from": 4, "to": 16}]
    assert pulled[2].all("reached")[-1]["evaluated"]
    assert pulled[2].all("reached")[-1]["saved"] or "checkpointing" not in fit


ACCELERATE = """
    from accelerate import Accelerator
    from accelerate.utils import find_executable_batch_size
    accelerator = Accelerator(cpu=True)
    def fit(rows, most=1000):
        torch.manual_seed(3)
        given = []
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)
        model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Rows(), batch_size=rows, shuffle=True))
        for x, y in loader:
            given.append(len(x))
            if len(x) > most:
                raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
        return given, model
"""


def test_accelerate(front):
    """The loader that prepare() makes of the script's is the same training's: what the script wrote was 10."""
    pytest.importorskip("accelerate")
    printed, levers, _ = front(ACCELERATE + "    print(fit(10)[0] == sizes(16))\n", batch=16)
    assert printed == ["True"] and levers == [{"lever": "batch", "done": True, "from": 10, "to": 16}]


def test_accelerate_accumulates(front):
    pytest.importorskip("accelerate")
    code = ACCELERATE + "    given, model = fit(10)\n    print(max(given), [round(v, 4) for v in model.weight.flatten().tolist()])\n"
    bare, pulled = front(code), front(code, accumulate=2)
    assert pulled[1] == [{"lever": "accumulate", "done": True, "from": 10, "to": 5}]
    assert bare[0][0].replace("10 ", "5 ", 1) == pulled[0][0]


def test_accelerate_that_would_find_its_own_batch(front):
    pytest.importorskip("accelerate")
    printed, _, _ = front(ACCELERATE + """
    asked = []
    @find_executable_batch_size(starting_batch_size=32)
    def train(batch_size):
        asked.append(batch_size)
        fit(batch_size, most=20)
    try:
        train()
    except RuntimeError as error:
        print(error, asked)
    """, batch=24)
    assert printed == ["CUDA out of memory. Tried to allocate 2 GiB [32]"]


@pytest.mark.parametrize("loader, given", [
    ("DataLoader(Rows(), batch_size=None, sampler=BatchSampler(RandomSampler(Rows()), 10, False), collate_fn=stack)", "sizes(16)"),
    ("DataLoader(Rows(), 10, sampler=DistributedSampler(Rows(), 2, 0), drop_last=True)", "[16]"),
    ("DataLoader(Rows(), 10, shuffle=True, num_workers=2)", "sizes(16)"),
])
def test_loaders(front, loader, given):
    printed, levers, _ = front("""
    class Rows(Rows):
        def __getitem__(self, at):
            if isinstance(at, list):
                return [super(Rows, self).__getitem__(i) for i in at]
            return super().__getitem__(at)
    def stack(rows):
        return torch.utils.data.default_collate(rows)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    seen = []
    for x, y in %s:
        seen.append(len(x))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(seen == %s)
    """ % (loader, given), batch=16)
    assert printed == ["True"] and levers == [{"lever": "batch", "done": True, "from": 10, "to": 16}]


def test_timm(front):
    pytest.importorskip("timm")
    printed, levers, seen = front("""
    import timm
    from timm.data import create_loader
    class Images(Rows):
        def __getitem__(self, i):
            super().__getitem__(i)
            return self.transform(Image.new("RGB", (40, 40), (i, i, i))), i % 3
    from PIL import Image
    options = dict(use_prefetcher=False, num_workers=0, persistent_workers=False, device=torch.device("cpu"))
    fits = create_loader(Images(), (3, 32, 32), 6, is_training=True, **options)
    checks = create_loader(Images(), (3, 32, 32), 6, is_training=False, **options)
    model = timm.create_model("resnet10t", num_classes=3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    seen = []
    for x, y in fits:
        seen.append(len(x))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x, y in checks:
            model(x)
            seen.append(len(x))
    print(seen)
    """, batch=12)
    assert printed[-1] == str([12] * 4 + [6] * 8 + [2])
    assert levers == [{"lever": "batch", "done": True, "from": 6, "to": 12}]
    assert seen.all("reached")[-1]["evaluated"]


@pytest.mark.parametrize("batch, done", [(4, True), (64, False)])
def test_yolo(front, tmp_path, monkeypatch, batch, done):
    pytest.importorskip("ultralytics")
    pytest.importorskip("polars")
    from PIL import Image

    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("YOLO_OFFLINE", "true")
    for kind in ("images", "labels"):
        (tmp_path / kind).mkdir()
    for at in range(10):
        Image.new("RGB", (64, 64), (at, 30, 99)).save(tmp_path / "images" / ("%d.jpg" % at))
        (tmp_path / "labels" / ("%d.txt" % at)).write_text("0 0.5 0.5 0.4 0.4\n")
    (tmp_path / "data.yaml").write_text("path: %s\ntrain: images\nval: images\nnames: {0: a}\n" % tmp_path)
    printed, levers, seen = front("""
    from ultralytics.cfg import entrypoint
    entrypoint("train model=yolov8n.yaml data=%s/data.yaml epochs=1 imgsz=64 batch=8 device=cpu workers=0 project=%s plots=False")
    """ % (tmp_path, tmp_path), batch=batch)
    assert levers[0] == {"lever": "batch", "done": True, "from": 8, "to": batch}
    assert [e.get("why") for e in levers[1:]] == ([] if done else ["the data has 10 rows, fewer than a batch of 64"])
    assert (seen.all("reached")[-1]["evaluated"], seen.all("reached")[-1]["saved"]) == (True, True)
