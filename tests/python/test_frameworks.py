"""Other people's loops around dedloc.Optimizer: Lightning, Hugging Face's Trainer, torch.compile.
Each is skipped where it is not installed (Debian has none of them)."""

from __future__ import annotations

import importlib.util
import unittest

import dedloc
import torch

from test_dedloc import Folder


def is_here(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


class Points(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        inputs = torch.rand(2, generator=generator)
        return {"inputs": inputs, "labels": inputs.sum()}


class FrameworksTest(Folder):
    def opened(self, model, steps=4, target=64):
        run, optimizer = self.host(model, steps=steps, target=target)
        optimizer._default_samples = 32
        return run, optimizer

    @unittest.skipUnless(is_here("lightning"), "no Lightning is installed")
    def test_lightning_stops_when_the_run_is_over(self):
        import lightning

        class Module(lightning.LightningModule):
            def __init__(self, optimizer, network):
                super().__init__()
                self.network, self.optimizer = network, optimizer

            def training_step(self, batch, _):
                return (self.network(batch["inputs"]).squeeze(1) - batch["labels"]).square().mean()

            def configure_optimizers(self):
                return self.optimizer

        network = torch.nn.Linear(2, 1)
        run, optimizer = self.opened(network)
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
            callbacks=[dedloc.callbacks.lightning_callback(run)])
        loader = torch.utils.data.DataLoader(Points(), batch_size=32)
        trainer.fit(Module(optimizer, network), loader)
        self.assertEqual(run.global_step, 4)
        self.assertLess(trainer.global_step, 128)

    @unittest.skipUnless(is_here("transformers") and is_here("accelerate"),
                         "no transformers are installed")
    def test_hugging_faces_trainer_stops_when_the_run_is_over(self):
        import transformers

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)

            def forward(self, inputs, labels):
                answers = self.layer(inputs).squeeze(1)
                return {"loss": (answers - labels).square().mean(), "logits": answers}

        model = Model()
        run, optimizer = self.opened(model)
        scheduler = dedloc.callbacks.run_schedule(optimizer)
        arguments = transformers.TrainingArguments(
            output_dir=self.folder, per_device_train_batch_size=32, num_train_epochs=1,
            report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True,
            logging_strategy="no")
        trainer = transformers.Trainer(
            model=model, args=arguments, train_dataset=Points(),
            optimizers=(optimizer, scheduler),
            callbacks=[dedloc.callbacks.trainer_callback(run)])
        trainer.train()
        self.assertEqual(run.global_step, 4)
        self.assertLess(trainer.state.global_step, 128)

    @unittest.skipUnless(is_here("transformers") and is_here("accelerate"),
                         "no transformers are installed")
    def test_hiveminds_albert_example_moved(self):
        """The changes that docs/from-hivemind.md makes in its run_trainer.py, on a small ALBERT."""
        import transformers

        config = transformers.AlbertConfig(
            vocab_size=100, embedding_size=16, hidden_size=32, num_hidden_layers=2,
            num_attention_heads=2, intermediate_size=64, max_position_embeddings=64)
        model = transformers.AlbertForPreTraining(config)

        class Words(torch.utils.data.Dataset):
            def __len__(self):
                return 4096

            def __getitem__(self, index):
                generator = torch.Generator().manual_seed(index)
                words = torch.randint(5, 100, (32,), generator=generator)
                return {"input_ids": words, "labels": words, "sentence_order_label": index % 2}

        class NoOpScheduler(torch.optim.lr_scheduler.LRScheduler):
            def get_lr(self):
                return [group["lr"] for group in self.optimizer.param_groups]

        arguments = transformers.TrainingArguments(
            output_dir=self.folder, per_device_train_batch_size=4, gradient_accumulation_steps=2,
            max_steps=1000, max_grad_norm=0.0, report_to=[], save_strategy="no", use_cpu=True,
            disable_tqdm=True, logging_strategy="no")
        run = dedloc.host(self.run_file(target=64, steps=3), directory=f"{self.folder}/albert")
        self.addCleanup(run.close, 0.0)
        optimizer = dedloc.Optimizer(
            run, model, batch_size_per_step=arguments.per_device_train_batch_size *
            arguments.gradient_accumulation_steps)
        transformers.Trainer(
            model=model, args=arguments, train_dataset=Words(),
            optimizers=(optimizer, NoOpScheduler(optimizer)),
            callbacks=[dedloc.callbacks.trainer_callback(run)]).train()
        self.assertEqual(run.global_step, 3)
        self.assertEqual(optimizer.local_epoch, 3)

    @unittest.skipUnless(hasattr(torch, "compile"), "torch 1.13 does not compile")
    def test_a_compiled_model_is_the_same_model(self):
        torch.manual_seed(4)
        run, _ = self.host(torch.nn.Linear(2, 1), steps=10**6, target=10**6)
        compiled = torch.compile(torch.nn.Linear(2, 1), backend="eager")
        other = dedloc.join(run.join_string, directory=f"{self.folder}/b")
        optimizer = dedloc.Optimizer(other, compiled)
        compiled(torch.rand(8, 2)).square().mean().backward()
        optimizer.step(samples=8)
        self.assertEqual(next(p for p in other.peers if p["id"] == other.peer_id)["samples"], 8)
        other.close(0.0)

    def test_a_closure_makes_the_passes(self):
        model = torch.nn.Linear(2, 1)
        run, optimizer = self.host(model, target=64)

        def closure():
            loss = model(torch.rand(64, 2)).square().mean()
            loss.backward()
            return loss
        with torch.no_grad():
            self.assertTrue(optimizer.step(closure, samples=64))
        self.assertEqual(run.global_step, 1)
        self.assertIsInstance(optimizer, torch.optim.Optimizer)


if __name__ == "__main__":
    unittest.main()
