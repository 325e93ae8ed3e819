# expect: steps=12 epochs=2 micro=2
"""Hugging Face Trainer on a tiny GPT-2 made from its configuration; accumulates two batches."""
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments, set_seed


class Tokens(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = torch.randint(0, 64, (48, 16), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


class Printer(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(state.global_step, float(logs["loss"]).hex())


def main():
    torch.set_num_threads(1)
    set_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(output_dir=folder, num_train_epochs=2, per_device_train_batch_size=4, gradient_accumulation_steps=2,
                                 logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=0)
        trainer = Trainer(model=model, args=args, train_dataset=Tokens(), callbacks=[Printer()])
        trainer.remove_callback(PrinterCallback)  # prints times
        trainer.train()


if __name__ == "__main__":
    main()
