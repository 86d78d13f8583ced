"""A run that is made in Python, without a file: settings, parameter groups, learning rates."""

from __future__ import annotations

import json
import os
import subprocess
import unittest
import warnings

import dedloc
import torch

from test_dedloc import LOOPBACK, PROGRAM, Folder

nn = torch.nn


class RunFromPython(Folder):
    def opened(self, model, directory="host", groups=None, **settings):
        settings = {"target_batch": 8, "averaging": dict(codec="fp32"), **settings}
        run = dedloc.host(directory=f"{self.folder}/{directory}", listen=LOOPBACK, **settings)
        self.addCleanup(run.close, 0.0)
        return run, dedloc.Optimizer(run, model, param_groups=groups)

    def joined(self, run, model, directory="guest", **options):
        other = dedloc.join(run.join_string, directory=f"{self.folder}/{directory}",
                            listen=LOOPBACK, patience=20)
        self.addCleanup(other.close, 0.0)
        return other, dedloc.Optimizer(other, model, **options)

    @staticmethod
    def same(model):
        torch.manual_seed(1)
        return model

    def as_torch(self, make_model, make_optimizer, groups=None, steps=3, rtol=2e-5, **settings):
        """Both make the same steps."""
        torch.manual_seed(2)
        ours = make_model()
        theirs = make_model()
        theirs.load_state_dict(ours.state_dict())
        folder = f"host{len(os.listdir(self.folder))}"  # for each run its own
        _, optimizer = self.opened(ours, folder, groups and groups(ours), **settings)
        plain = make_optimizer(theirs)
        for _ in range(steps):
            inputs = torch.randn(8, 4)
            ours(inputs).square().mean().backward()
            self.assertTrue(optimizer.step(samples=8))
            plain.zero_grad()
            theirs(inputs).square().mean().backward()
            plain.step()
        for one, other in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(one, other, rtol=rtol, atol=1e-6)


class AddressesTest(Folder):
    def opened(self, directory="a", **addresses):
        run = dedloc.host(self.run_file(), directory=f"{self.folder}/{directory}", **addresses)
        self.addCleanup(run.close, 0.0)
        dedloc.Optimizer(run, nn.Linear(1, 1))
        return run

    def test_addresses_are_given_as_people_write_them(self):
        for number, listen in enumerate(
                ("127.0.0.1:0", ["127.0.0.1:0", "none"], "/ip4/127.0.0.1/tcp/0")):
            with self.subTest(listen):
                run = self.opened(str(number), listen=listen, announce="example.org:4001")
                self.assertIn("dedloc1", run.join_string)

    def test_what_is_no_address_is_said_with_what_to_write(self):
        for text in ("localhost:4001", "nothing", "127.0.0.1:port", ":70000"):
            with self.assertRaisesRegex(dedloc.BadInput, f"'{text}' is no address.*127.0.0.1:0"):
                self.opened(listen=[LOOPBACK, text])
        with self.assertRaisesRegex(dedloc.BadInput, "':4001' is no address that others"):
            self.opened(listen=LOOPBACK, announce=":4001")
        with self.assertRaisesRegex(dedloc.BadInput, "203.0.113.7:4001"):
            self.opened(listen=LOOPBACK, relays="203.0.113.7:4001")

    def test_a_folder_of_another_run_is_refused(self):
        for steps, refused in ((3, False), (3, False), (4, True)):
            run = dedloc.host(self.run_file(steps=steps), directory=f"{self.folder}/a",
                              listen=LOOPBACK)
            if refused:
                with self.assertRaisesRegex(dedloc.BadInput, "another run"):
                    dedloc.Optimizer(run, nn.Linear(1, 1))
            else:
                dedloc.Optimizer(run, nn.Linear(1, 1))
            run.close(0.0)


class SettingsTest(RunFromPython):
    def test_settings_are_the_optimizers_that_pytorch_has(self):
        for name, settings, make in (
            ("sgd", dict(kind="sgd", lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.0),
             lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True)),
            ("adamw", dict(kind="adamw", lr=0.01, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.0),
             lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, betas=(0.8, 0.9), eps=1e-6,
                                         weight_decay=0.0)),
        ):
            with self.subTest(name):
                self.as_torch(lambda: nn.Linear(4, 3), make, optimizer=settings)
                dedloc.close_all(0.0)

    @unittest.skipUnless(hasattr(torch.optim, "Muon"), "this PyTorch has no Muon")
    def test_muon_is_pytorchs(self):
        self.as_torch(
            lambda: nn.Linear(4, 12, bias=False),
            lambda m: torch.optim.Muon(m.parameters(), lr=0.02, momentum=0.95, nesterov=True,
                                       weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
            optimizer=dict(kind="muon", lr=0.02, momentum=0.95, nesterov=True, weight_decay=0.1),
            rtol=0.02)  # it computes in bf16

    def test_muon_moves_matrices_and_peers_agree(self):
        def network():
            return nn.Sequential(nn.Embedding(10, 6), nn.Linear(6, 6), nn.Linear(6, 1))
        model = network()
        groups = [dict(params=model[0].parameters(), muon=False)]
        run, optimizer = self.opened(model, groups=groups, target_batch=16,
                                     optimizer=dict(kind="muon", lr=0.02, momentum=0.95))
        guest = network()
        other, second = self.joined(
            run, guest, param_groups=[dict(params=guest[0].weight, muon=False)])
        from concurrent.futures import ThreadPoolExecutor
        words = torch.randint(10, (8,))

        def steps(network, opt):
            for _ in range(3):
                network(words).square().mean().backward()
                opt.step(samples=8)
        with ThreadPoolExecutor(2) as pool:
            made = [pool.submit(steps, *pair) for pair in ((model, optimizer), (guest, second))]
            for work in made:
                work.result()
        self.assertGreater(run.global_step, 0)

    def test_the_step_schedule_is_step_lrs(self):
        torch.manual_seed(3)
        run, optimizer = self.opened(
            nn.Linear(4, 1), optimizer="sgd",
            schedule=dict(kind="step", peak=1.0, decay_every=2, decay_factor=0.5))
        rates = []
        for _ in range(5):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.param_groups[0]["params"][0].grad = torch.zeros(1, 4)
            optimizer.step(samples=8)
        self.assertEqual(rates, [1.0, 1.0, 0.5, 0.5, 0.25])

    def test_the_run_file_is_saved_and_hosts_the_same_run(self):
        run, _ = self.opened(nn.Linear(4, 1), optimizer=dict(kind="lamb", lr=0.5), run_name="mine",
                             stop=dict(steps=7), local=None)
        path = f"{self.folder}/run.toml"
        run.save_run_file(path)
        self.assertIn('name = "mine"', open(path).read())
        again = dedloc.host(path, directory=f"{self.folder}/again", listen=LOOPBACK)
        self.addCleanup(again.close, 0.0)
        dedloc.Optimizer(again, nn.Linear(4, 1))
        self.assertEqual(again.run_file, run.run_file)
        other, _ = self.joined(run, nn.Linear(4, 1))
        self.assertEqual(other.run_file, run.run_file)

    def test_what_is_wrong_in_them_is_said(self):
        for settings, words in (
            (dict(optimizer="sgd"), "target_batch"),
            (dict(target_batch=8, optimizer="adagrad"), "adagrad"),
            (dict(target_batch=8, optimizer=dict(kind="sgd", mementum=0.9)), "mementum"),
            (dict(target_batch=8, optimizer=dict(lr=0.1), schedule=0.1), "twice"),
            (dict(target_batch=8, optimizer=dict(momentum=float("nan"))), "momentum"),
            (dict(target_batch=8, optimizer=dict(lr=torch.tensor([1, 2]))), "lr|peak|number"),
            (dict(target_batch=0, optimizer="sgd"), "batch.target"),
            (dict(target_batch=8, stop=3), "stop"),
        ):
            with self.subTest(words), self.assertRaisesRegex((dedloc.BadInput, ValueError), words):
                run = dedloc.host(directory=f"{self.folder}/x", listen=LOOPBACK, **settings)
                dedloc.Optimizer(run, nn.Linear(4, 1))
        with self.assertRaisesRegex(dedloc.BadInput, "run file"):
            dedloc.host(self.run_file(), target_batch=8)


class SlipsTest(RunFromPython):
    """Errors say what to write to people who know PyTorch and write what it takes."""

    def refused(self, kind, words, *arguments, **named):
        with self.assertRaisesRegex(kind, words):
            dedloc.Optimizer(*arguments, **named)

    def test_the_arguments_of_pytorchs_optimizers(self):
        model = nn.Linear(4, 1)
        run = dedloc.host(target_batch=8, directory=f"{self.folder}/x", listen=LOOPBACK)
        self.refused(dedloc.BadInput, r"the model itself.*Optimizer\(run, model\)", run,
                     model.parameters())
        self.refused(dedloc.BadInput, "first argument is the run", model, run)
        self.refused(dedloc.BadInput, "first argument is the run.*not a str", "dedloc1", model)
        self.refused(TypeError, "'lr': it is the same for all peers.*optimizer=dict", run, model,
                     lr=0.1)
        self.refused(TypeError, "no argument 'colour'$", run, model, colour=1)
        dedloc.Optimizer(run, model)
        self.addCleanup(run.close, 0.0)

    def test_step_without_the_number_of_samples(self):
        _, optimizer = self.opened(nn.Linear(4, 1))
        with self.assertRaisesRegex(dedloc.BadInput, r"opt\.step\(loss, samples=len\(inputs\)\)"):
            optimizer.step()

    def test_host_and_join_without_what_they_need_or_with_what_they_have_not(self):
        for call, kind, words in (
            (dedloc.host, dedloc.BadInput, "run file.*target_batch=.*resume="),
            (lambda: dedloc.join(""), dedloc.BadInput, "run.join_string"),
            (lambda: dedloc.join("dedloc1", dir="x"), TypeError, "join has no 'dir'.*directory"),
            (lambda: dedloc.join("dedloc1", admit="list"), TypeError, "join has no 'admit'"),
            (lambda: dedloc.host(batch_size=8), TypeError, "host has no 'batch_size'.*directory"),
            (lambda: dedloc.host(target_batch=8, stop=10), dedloc.BadInput, r"dict\(steps=1000\)"),
            (lambda: dedloc.host(target_batch=8, optimizer=torch.optim.SGD), dedloc.BadInput,
             '"sgd", or dict'),
        ):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                call()


class GroupsTest(RunFromPython):
    def test_groups_are_the_optimizers_that_pytorch_has(self):
        def network():
            return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))

        def groups(model):
            return [dict(params=model[0].parameters(), lr_factor=0.1, weight_decay=0.5),
                    dict(params=[model[1].bias], weight_decay=0.0)]

        def plain(model):
            return torch.optim.AdamW([
                dict(params=model[0].parameters(), lr=0.01, weight_decay=0.5),
                dict(params=[model[1].bias], lr=0.1, weight_decay=0.0),
                dict(params=[model[1].weight], lr=0.1, weight_decay=0.2)])
        self.as_torch(network, plain, groups,
                      optimizer=dict(kind="adamw", lr=0.1, weight_decay=0.2))

    def test_local_updates_step_by_group(self):
        model = nn.Linear(4, 1)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        run, optimizer = self.opened(
            model, optimizer=dict(kind="sgd", momentum=0.0), schedule=1.0, target_batch=32,
            local=dict(batch=8, optimizer=dict(kind="sgd", momentum=0.0), schedule=0.1),
            groups=[dict(params=[model.bias], lr_factor=0.0)])
        while run.global_step < 1:
            model(torch.randn(8, 4)).sum().backward()
            optimizer.step(samples=8)
        self.assertFalse(torch.equal(model.weight, before[0]))
        torch.testing.assert_close(model.bias.detach(), before[1])

    def test_a_peer_with_other_groups_is_refused_with_a_sentence(self):
        model = nn.Linear(4, 1)
        run, _ = self.opened(model, optimizer="sgd", schedule=0.1,
                             groups=[dict(params=model.bias, lr_factor=2.0)])
        for groups in (None, [dict(params="bias", lr_factor=3.0)],
                       [dict(params="bias", lr_factor=2.0, weight_decay=0.1)],
                       [dict(params="weight", lr_factor=2.0)]):
            other = nn.Linear(4, 1)
            named = dict(other.named_parameters())
            given = groups and [{**group, "params": named[group["params"]]} for group in groups]
            with self.assertRaisesRegex(dedloc.DifferentRun, "parameter groups"):
                self.joined(run, other, f"guest{hash(str(groups))}", param_groups=given)
        other = nn.Linear(4, 1)
        self.joined(run, other, param_groups=[dict(params=[other.bias], lr_factor=2.0)])

    def test_groups_are_shown_with_their_learning_rates(self):
        model = nn.Linear(4, 1)
        _, optimizer = self.opened(model, optimizer="sgd", schedule=0.5, groups=[
            dict(params=model.bias, lr_factor=0.5, weight_decay=0.0, name="biases")])
        shown = optimizer.param_groups
        self.assertEqual([group["lr"] for group in shown], [0.25, 0.5])
        self.assertEqual(shown[0]["name"], "biases")
        self.assertIs(shown[1]["params"][0], model.weight)

    def test_wrong_groups_are_bad_input(self):
        model = nn.Linear(4, 1)
        for groups, words in (
            ([dict(params=model.bias, lr=0.1)], "lr_factor"),
            ([dict(params=model.bias, momentum=0.1)], "momentum"),
            ([dict(lr_factor=1.0)], "params"),
            ([dict(params=[torch.zeros(3)])], "no parameter"),
            ([dict(params=model.bias), dict(params=model.parameters())], "before"),
            ([dict(params=model.bias, lr_factor=-1)], "lr_factor"),
            ([dict(params=model.bias, weight_decay=float("nan"))], "weight_decay"),
        ):
            run = dedloc.host(target_batch=8, optimizer="sgd", directory=f"{self.folder}/x")
            with self.subTest(words), self.assertRaisesRegex(dedloc.BadInput, words):
                dedloc.Optimizer(run, model, param_groups=groups)
        _, optimizer = self.opened(model, optimizer="sgd", schedule=0.1)
        with self.assertRaisesRegex(dedloc.BadInput, "param_groups"):
            optimizer.add_param_group(dict(params=[nn.Parameter(torch.zeros(2))]))


class CheckpointTest(RunFromPython):
    def network(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))

    def trained(self, **more) -> tuple[nn.Module, dedloc.Run, str]:
        """A model that was trained for two steps, and the folder of its peer."""
        torch.manual_seed(5)
        model = self.network()
        groups = [dict(params=model[0].parameters(), lr_factor=0.5)]
        run, optimizer = self.opened(model, groups=groups, optimizer="adamw", schedule=0.1,
                                     checkpoint=dict(every=1), **more)
        for _ in range(2):
            model(torch.randn(8, 4)).square().mean().backward()
            self.assertTrue(optimizer.step(samples=8))
        run.leave()
        return model, run, f"{self.folder}/host"

    def test_a_checkpoint_is_read_into_a_model_without_a_run(self):
        model, run, folder = self.trained()
        other = self.network()
        found = dedloc.load_checkpoint(folder, other)
        self.assertEqual((found["step"], found["samples"], found["state_hash"], found["skipped"]),
                         (2, 16, run.state_hash, []))
        self.assertIn('kind = "adamw"', found["run_file"])
        self.assertTrue(os.path.isdir(found["path"]))
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, other.state_dict()[name]), name)
        earlier = os.path.join(folder, "checkpoints", min(os.listdir(f"{folder}/checkpoints")))
        self.assertEqual(dedloc.load_checkpoint(earlier, other.double())["path"], earlier)
        self.assertEqual(other[0].weight.dtype, torch.float64)

    def test_what_does_not_fit_is_said(self):
        _, _, folder = self.trained()
        named = nn.Sequential(nn.Sequential(*self.network()))
        with self.assertRaisesRegex(dedloc.DifferentRun, "built differently"):
            dedloc.load_checkpoint(folder, named)
        with self.assertRaises(dedloc.DedlocError):
            dedloc.load_checkpoint(folder, nn.Linear(4, 1))
        with self.assertRaisesRegex(dedloc.BadInput, "no folder"):
            dedloc.load_checkpoint(f"{self.folder}/nowhere", named)

    def test_it_is_exported_as_safetensors(self):
        model, _, _ = self.trained()
        path = f"{self.folder}/model.safetensors"
        dedloc.save_safetensors(model, path, {"run": "mine"})
        with open(path, "rb") as file:
            head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            values = file.read()
        self.assertEqual(head.pop("__metadata__"), {"format": "pt", "run": "mine"})
        self.assertEqual(set(head), set(model.state_dict()))
        for name, tensor in model.state_dict().items():
            begin, end = head[name]["data_offsets"]
            self.assertEqual(head[name]["shape"], list(tensor.shape))
            stored = torch.frombuffer(bytearray(values[begin:end]), dtype=tensor.dtype)
            self.assertTrue(torch.equal(stored.reshape(tensor.shape), tensor), name)
        try:
            from safetensors.torch import load_file
        except ImportError:
            return
        self.assertTrue(torch.equal(load_file(path)["0.weight"], model[0].weight))

    @unittest.skipUnless(PROGRAM, "no dedloc program was built")
    def test_the_programs_run_file_for_loops_hosts_one(self):
        path = f"{self.folder}/own_loop.toml"
        subprocess.run([PROGRAM, "init", "own_loop", "-o", path], check=True, capture_output=True)
        run = dedloc.host(path, directory=f"{self.folder}/host", listen=LOOPBACK)
        self.addCleanup(run.close, 0.0)
        optimizer = dedloc.Optimizer(run, nn.Linear(4, 1))
        self.assertEqual(run.target_batch, 1024)
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.001 / 100)


class LearningRateTest(RunFromPython):
    def test_the_present_learning_rate_is_shown(self):
        run, optimizer = self.opened(
            nn.Linear(4, 1), optimizer="sgd",
            schedule=dict(kind="linear", peak=1.0, warmup_steps=2, total_steps=4))
        shown = []
        for _ in range(4):
            shown.append(optimizer.param_groups[0]["lr"])
            self.assertEqual(run.learning_rate, shown[-1])
            optimizer.param_groups[0]["params"][0].grad = torch.zeros(1, 4)
            optimizer.step(samples=8)
        self.assertEqual(shown, [0.5, 1.0, 1.0, 0.5])

    def test_a_scheduler_that_is_left_in_the_script_has_no_effect_and_says_so(self):
        run, optimizer = self.opened(nn.Linear(4, 1), optimizer="sgd", schedule=0.25)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                optimizer.param_groups[0]["params"][0].grad = torch.zeros(1, 4)
                optimizer.step(samples=8)
                scheduler.step()
                self.assertEqual(scheduler.get_last_lr(), [0.25])
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.25)
        self.assertTrue(any("[schedule]" in str(warning.message) for warning in caught))
        rates = [e["fields"]["learning_rate"] for e in run.events if e["kind"] == "step"]
        self.assertEqual(rates, [0.25] * 3)


if __name__ == "__main__":
    unittest.main()
