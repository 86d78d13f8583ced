"""A model that changes after it has joined: what can be followed is followed, the rest is BadInput
at the next step, with what to do."""

from __future__ import annotations

import copy
import unittest

import dedloc
import torch

from test_dedloc import Folder

nn = torch.nn


class ChangedModelTest(Folder):
    def opened(self, model, **options):
        run = dedloc.host(target_batch=8, optimizer=dict(kind="sgd", momentum=0.0, lr=0.1),
                          averaging=dict(codec="fp32"), directory=f"{self.folder}/host")
        self.addCleanup(self.closed, run)
        return run, dedloc.Optimizer(run, model, **options)

    @staticmethod
    def closed(run):
        try:
            run.close(0.0)
        except dedloc.BadInput:
            pass  # the model does not fit any more, as the test wanted

    def step(self, model, optimizer, shape=(8, 4)):
        inputs = torch.randn(*shape)
        weight = next(model.parameters())
        model(inputs.to(weight.dtype)).float().square().mean().backward()
        return optimizer.step(samples=8)

    def refused(self, change, *words, model=None, shape=(8, 4), **options):
        model = model or nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        _, optimizer = self.opened(model, **options)
        self.step(model, optimizer, shape)
        change(model)
        with self.assertRaises(dedloc.BadInput) as caught:
            self.step(model, optimizer, shape)
        for word in words:
            self.assertIn(word, str(caught.exception))
        return model, optimizer

    def followed(self, change, model, shape=(8, 4), optimizer=None):
        """The step after it is SGD's own, in the model that there is then."""
        _, optimizer = self.opened(model)
        self.step(model, optimizer, shape)
        change(model)
        model(torch.randn(*shape)).square().mean().backward()
        expected = [p.detach() - 0.1 * p.grad for p in model.parameters()]
        self.assertTrue(optimizer.step(samples=8))
        for parameter, value in zip(model.parameters(), expected):
            torch.testing.assert_close(parameter.detach(), value, rtol=1e-5, atol=1e-6)
        return optimizer

    # Types, shapes, devices.

    def test_a_converted_type_is_refused(self):
        for number, convert in enumerate((nn.Module.double, nn.Module.bfloat16)):
            with self.subTest(number):
                with self.subTest("and given back, the run's values too"):
                    model, optimizer = self.refused(convert, "model.float()", "torch.autocast")
                    model.float()
                    optimizer.load_state_from_peers()
                    self.assertTrue(self.step(model, optimizer))
                dedloc.close_all(0.0)

    def test_one_parameter_of_another_type_is_refused(self):
        def change(model):
            model[1].bias.data = model[1].bias.data.half()
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        _, optimizer = self.opened(model)
        self.step(model, optimizer)
        model(torch.randn(8, 4)).square().mean().backward()
        model[1].bias.grad = None
        change(model)
        with self.assertRaisesRegex(dedloc.BadInput, "1.bias.*fp16"):
            optimizer.step(samples=8)

    def test_another_shape_is_refused(self):
        def change(model):
            model[0].bias.data = torch.zeros(1)
        self.refused(change, "0.bias", "[1]")

    def test_freed_memory_is_refused(self):
        model = nn.Linear(4, 2)
        _, optimizer = self.opened(model)
        self.step(model, optimizer)
        model(torch.randn(8, 4)).sum().backward()
        model.weight.data.storage().resize_(0)
        with self.assertRaisesRegex(dedloc.BadInput, "memory"):
            optimizer.step(samples=8)

    def test_a_converted_buffer_is_refused(self):
        def change(model):
            model[1].running_mean = model[1].running_mean.double()
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval()
        _, optimizer = self.opened(model)
        change(model)
        next(model.parameters()).grad = torch.zeros(3, 4)
        with self.assertRaisesRegex(dedloc.BadInput, "1.running_mean"):
            optimizer.step(samples=8)

    # Memory.

    def test_channels_last_is_followed(self):
        model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten(), nn.Linear(20, 2))
        self.followed(lambda m: m.to(memory_format=torch.channels_last), model, (8, 3, 4, 4))
        self.assertFalse(model[0].weight.is_contiguous())

    def test_moved_memory_is_followed(self):
        def change(model):
            for parameter in model.parameters():
                parameter.data = parameter.data.clone()
        self.followed(change, nn.Linear(4, 2))

    def test_transposed_memory_is_followed(self):
        def change(model):
            model.weight.data = model.weight.data.t().contiguous().t()
        self.followed(change, nn.Linear(4, 3))

    def test_exchanged_parameters_of_the_same_values_are_followed(self):
        def change(model):
            model.weight = nn.Parameter(model.weight.detach().clone())
        model = nn.Linear(4, 3)
        optimizer = self.followed(change, model)
        self.assertIs(optimizer.param_groups[0]["params"][0], model.weight)

    def test_shared_memory_is_refused(self):
        flat = torch.randn(8)
        model = nn.Sequential(nn.Linear(4, 1, bias=False), nn.Linear(1, 4, bias=False))
        model[0].weight.data, model[1].weight.data = flat[:4].view(1, 4), flat[2:6].view(4, 1)
        with self.assertRaisesRegex(dedloc.BadInput, "same memory"):
            self.opened(model)

    def test_memory_that_is_shared_afterwards_is_refused(self):
        def change(model):
            model[1].bias.data = model[0].bias.data
        model = nn.Sequential(nn.Linear(4, 4, bias=True), nn.Linear(4, 4, bias=True))
        with torch.no_grad():
            model[0].bias.zero_()
            model[1].bias.zero_()
        _, optimizer = self.opened(model)
        change(model)
        model(torch.randn(8, 4)).square().mean().backward()
        with self.assertRaisesRegex(dedloc.BadInput, "same memory"):
            optimizer.step(samples=8)

    # Changes of the parameters that are trained

    def test_frozen_and_thawed_layers_are_refused(self):
        self.refused(lambda m: m[0].requires_grad_(False), "0.weight", "frozen", "requires_grad")
        dedloc.close_all(0.0)
        model = nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2))
        self.refused(lambda m: m[0].requires_grad_(True), "0.weight", "trained", model=model)

    def test_added_and_removed_parameters_are_refused(self):
        def add(model):
            model[0].extra = nn.Parameter(torch.zeros(3))
        self.refused(add, "0.extra", "added")
        dedloc.close_all(0.0)

        def remove(model):
            model[1].bias = None
        self.refused(remove, "1.bias", "gone")
        dedloc.close_all(0.0)
        self.refused(lambda m: m.add_module("2", nn.Linear(2, 2)), "2.weight", "added")

    def test_tied_and_untied_weights_are_refused(self):
        def tie(model):
            model[1].weight = model[0].weight
        self.refused(tie, "1.weight", "tied", model=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
        dedloc.close_all(0.0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        model[1].weight = model[0].weight

        def untie(model):
            model[1].weight = nn.Parameter(model[0].weight.detach().clone())
        self.refused(untie, "1.weight", "0.weight", model=model)

    def test_pruning_is_refused(self):
        from torch.nn.utils import prune
        self.refused(lambda m: prune.l1_unstructured(m[0], "weight", 0.5), "0.weight")

    # Values.

    def test_changed_values_are_refused(self):
        def loaded(model):
            model.load_state_dict(copy.deepcopy(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
                                                .state_dict()))

        def clamped(model):
            with torch.no_grad():
                model[0].weight.clamp_(-0.01, 0.01)

        def clamped_data(model):
            model[1].weight.data.clamp_(-0.01, 0.01)

        def one_row(model):
            model[0].weight.data[2] = 0

        def filled(model):
            nn.init.constant_(model[1].bias, 3.0)

        def exchanged(model):
            model[0] = nn.Linear(4, 4)
        for change in loaded, clamped, clamped_data, one_row, filled, exchanged:
            with self.subTest(change.__name__):
                _, optimizer = self.refused(change, "load_state_from_peers")
                dedloc.close_all(0.0)

    def test_the_runs_values_come_back(self):
        model = nn.Linear(4, 2)
        run, optimizer = self.opened(model)
        self.step(model, optimizer)
        before = model.weight.detach().clone()
        model.weight.data.fill_(7)
        optimizer.load_state_from_peers()
        self.assertTrue(torch.equal(model.weight, before))
        self.assertTrue(self.step(model, optimizer))

    def test_writing_the_same_values_is_no_change(self):
        def change(model):
            model.load_state_dict(copy.deepcopy(model.state_dict()))
        self.followed(change, nn.Linear(4, 2))

    def test_a_frozen_layer_that_changes_is_refused(self):
        model = nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2))

        def change(model):
            with torch.no_grad():
                model[0].weight.mul_(0.9)
        self.refused(change, "0.weight", "frozen", model=model)

    # Buffers.

    def test_buffers_that_the_model_exchanges_are_followed(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 2)
                self.register_buffer("seen", torch.zeros(2))

            def forward(self, inputs):
                outputs = self.layer(inputs)
                self.seen = self.seen + outputs.detach().mean(0)  # another tensor each time
                return outputs
        model = Model()
        _, optimizer = self.opened(model)
        torch.manual_seed(1)
        for _ in range(3):
            self.assertTrue(self.step(model, optimizer))
        seen = model.seen.clone()
        self.assertTrue(seen.abs().sum() > 0)
        optimizer.load_state_from_peers()
        torch.testing.assert_close(model.seen, seen)

    def test_caches_may_come_and_go_and_tables_may_not_change(self):
        model = nn.Linear(4, 2)
        model.register_buffer("table", torch.arange(2000))
        _, optimizer = self.opened(model)
        model.register_buffer("mask", torch.ones(3, 3), persistent=False)
        self.assertTrue(self.step(model, optimizer))
        model.table.zero_()
        with self.assertRaisesRegex(dedloc.BadInput, "private_buffers"):
            self.step(model, optimizer)

    def test_a_private_buffer_is_the_peers_own(self):
        model = nn.Linear(4, 2)
        model.register_buffer("queue", torch.zeros(4))
        _, optimizer = self.opened(model, private_buffers=["queue"])
        model.queue = torch.zeros(9).double()
        self.assertTrue(self.step(model, optimizer))

    # Gradients.

    def test_sparse_and_expanded_gradients_are_summed(self):
        model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Flatten(), nn.Linear(8, 1))
        _, optimizer = self.opened(model)
        before = model[0].weight.detach().clone()
        words = torch.randint(10, (8, 2))
        model(words).sum().backward()
        expected = before - 0.1 * model[0].weight.grad.to_dense()
        model[2].bias.grad = torch.ones(1).expand(1)
        self.assertTrue(optimizer.step(samples=8))
        torch.testing.assert_close(model[0].weight.detach(), expected)

    # Joining and leaving.

    def test_a_lazy_model_and_one_without_memory_cannot_join(self):
        with self.assertRaisesRegex(dedloc.BadInput, "lazy"):
            self.opened(nn.LazyLinear(3))
        with self.assertRaisesRegex(dedloc.BadInput, "meta"):
            self.opened(nn.Linear(3, 2, device="meta"))

    def test_leaving_goes_on_where_the_model_cannot_take_the_last_state(self):
        model = nn.Linear(4, 2)
        run, optimizer = self.opened(model)
        self.step(model, optimizer)
        model.double()
        with self.assertWarnsRegex(RuntimeWarning, "left in order.*model.float"):
            run.leave(0.0)
        run.close()
        self.assertEqual(model.weight.dtype, torch.float64)

    def test_leaving_follows_moved_memory(self):
        model = nn.Conv2d(3, 4, 3)
        run, optimizer = self.opened(model)
        self.step(model, optimizer, (8, 3, 4, 4))
        before = model.weight.detach().clone()
        model.to(memory_format=torch.channels_last)
        run.leave(0.0)
        self.assertTrue(torch.equal(model.weight, before))

    def test_a_model_whose_memory_is_not_plain_is_looked_at_too(self):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2))
        model.to(memory_format=torch.channels_last)
        self.refused(lambda m: m[2].weight.data.zero_(), "2.weight", model=model,
                     shape=(8, 3, 4, 4))


if __name__ == "__main__":
    unittest.main()
