"""Small faults, one at a time, that the tests must notice: `make mutants`.

Each mutant is a change of one place in a copy of src/; the working tree is never touched. It is killed if one of its tests fails. A place
is found by its text: in the file of the table, or, where code has moved, in the only file of src/ that has it. A test is named by its id, or
its file by its path; one that has moved is found by its name, where only one test has it.

    python tests/net/mutants.py [--only NAME ...] [--jobs 2] [--list]

Exit code 1: a mutant survived (SURVIVED), its place or its tests are nowhere (LOST), or its tests fail without it (BROKEN, `--check`).
Standard library only.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
PATIENCE = 600  # seconds for the tests of one mutant: a fault may make them wait for ever
TRAINING = "src/vitrail/learn/training"
TRAIN, PREPARE, EVALUATE, PLAN = (f"src/vitrail/run/{name}.py" for name in ("train", "prepare", "evaluate", "plan"))
RUN_ENDS = "src/vitrail/run/ends.py"
OPTIONS, METRIC, REGISTRY, IMAGES, CLASSIFY = (
    f"src/vitrail/tasks/{name}.py" for name in ("options", "metric", "registry", "image_task", "classify/task")
)
LOOP, STEP, WORLD, BEST, ENDS = (f"{TRAINING}/{name}.py" for name in ("loop", "step", "world", "best_epoch", "ends"))
ORDER, BATCH, CACHE, BAD, OPENING = (
    f"src/vitrail/data/{name}.py" for name in ("order", "image_source", "cache", "bad_files", "opening")
)
RECORDS = "src/vitrail/records.py"
NEIGHBORS, VOTERS = (
    "src/vitrail/learn/metrics/nearest_neighbors.py",
    "    k: int = {},\n    temperature: float = 0.07,\n) -> {}",
)
SAID = '        print(f"vitrail: {one_line(str(error))}", file=sys.stderr)\n'

RESUME, COMMANDS, WRONG = "tests/learn/test_resume.py", "tests/cli/test_commands.py", "tests/cli/test_wrong_input.py"
LEARNING, LOADED, FOLDER = "tests/learn/test_loop.py", "tests/data/test_loader.py", "tests/data/test_folder.py"
MECHANISM, FIGURES, EVALUATED = "tests/tasks/test_options.py", "tests/tasks/test_metric.py", "tests/run/test_evaluate.py"
BAD_RUNS = "tests/tasks/classify/test_training_with_bad_files.py"
WRONG_LINES = f"{WRONG}::test_wrong_input_gives_one_line_and_code_2"


@dataclass(frozen=True)
class Mutant:
    """`places`: (file, text as it is, text instead), the first that is found. `chosen`: a -k expression within the tests."""

    name: str
    places: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]
    chosen: str = ""


def mutant(name: str, file: str, old: str, new: str, *tests: str, chosen: str = "", other: tuple[tuple[str, str, str], ...] = ()) -> Mutant:  # fmt: skip
    return Mutant(name, ((file, old, new), *other), tests, chosen)


MUTANTS: tuple[Mutant, ...] = (
    # The runner: what a run is, and what goes on with it.
    mutant("resume_compares_nothing", TRAIN, 'asked not in ("auto", known):', "False:", f"{RESUME}::test_an_option_that_differs_is_named"),
    mutant("finished_run_trained_again", RUN_ENDS, "return progress.finished and at_end and", "return False and",
           f"{RESUME}::test_resume_of_a_finished_run_does_nothing"),
    mutant("folder_overwritten", TRAIN, "if folder.exists() and not (folder.is_dir()", "if False and not (folder.is_dir()",
           WRONG_LINES, chosen="such and out"),
    mutant("resume_without_folder", TRAIN, "if options.resume and options.out is None:", "if False:", WRONG_LINES, chosen="such and resume"),
    mutant("numbers_unchecked", TRAIN, "    check(options)\n    options = options.normalize()", "    options = options.normalize()",
           WRONG_LINES, chosen="such and epochs"),
    mutant("out_is_stored", OPTIONS, 'NOT_STORED = ("out", "resume", "finish", "offline")', 'NOT_STORED = ("resume", "finish", "offline")',
           f"{COMMANDS}::test_config_says_everything_and_what_auto_chose"),
    mutant("relative_data_stored", OPTIONS, "{name: absolute(value) for name, value in named.items() if value}", "{}",
           f"{COMMANDS}::test_a_run_knows_its_data_from_any_folder"),
    mutant("seed_not_set", PREPARE, "    torch.manual_seed(resolved.options.seed)\n", "", f"{COMMANDS}::test_config_repeats_a_run_bit_for_bit"),
    mutant("seed_plus_one", PREPARE, "torch.manual_seed(resolved.options.seed)", "torch.manual_seed(resolved.options.seed + 1)",
           f"{COMMANDS}::test_the_seed_decides_the_first_weights"),
    mutant("seed_set_after_the_model", PREPARE, "    torch.manual_seed(resolved.options.seed)\n    model = task.build(resolved, loaded)\n",
           "    model = task.build(resolved, loaded)\n    torch.manual_seed(resolved.options.seed)\n",
           f"{COMMANDS}::test_config_repeats_a_run_bit_for_bit"),
    mutant("test_is_val", TRAIN, "scored = task.score(setup, split,", 'scored = task.score(setup, "val",',
           f"{COMMANDS}::test_predictions_agree_with_the_score", f"{COMMANDS}::test_eval_repeats_the_score"),
    mutant("scored_is_called_val", CLASSIFY, "return Scored(evaluation=predictions, split=split,", 'return Scored(evaluation=predictions, split="val",',
           f"{COMMANDS}::test_eval_matches_classes_by_name"),
    mutant("last_is_scored", TRAIN, 'model=load(folder / "best")', 'model=load(folder / "last")',
           f"{RESUME}::test_the_best_weights_are_scored_whatever_the_last_are"),
    mutant("calibration_not_saved", TRAIN, '        save(setup.model, folder / "best")\n', "        pass\n",
           "tests/tasks/segment3d/test_runs.py::test_the_largest_part_goes_with_the_model"),
    mutant("metrics_before_report", TRAIN, "    task.write_predictions(scored, folder)\n",
           "    (folder / METRICS).write_text('{\"accuracy\": 1.0}')\n    task.write_predictions(scored, folder)\n",
           f"{RESUME}::test_a_run_whose_report_fails_is_not_finished"),
    mutant("others_read_no_config", TRAIN, "options = replace(read_options(folder / CONFIG), out=options.out, resume=options.resume, finish=options.finish)",
           "options = replace(options, resume=True)", "tests/run/test_train.py"),
    mutant("others_look_for_bad_files", TRAIN, "setup = prepare(options, bar, resumed=folder)", "setup = prepare(options, bar, resumed=None)",
           "tests/run/test_train.py"),
    mutant("eval_divides_anew", EVALUATE, "return trained.data, True", "return trained.data, False",
           f"{COMMANDS}::test_eval_divides_the_same_data_as_training_did"),
    mutant("eval_forgets_the_seed", EVALUATE, "seed=trained.seed if own else 0,", "seed=0,",
           f"{COMMANDS}::test_eval_divides_the_same_data_as_training_did"),
    mutant("eval_forgets_val_share", EVALUATE, "    opened = task.open(\n        used,\n",
           "    opened = task.open(\n        type(used)(data=used.data),\n", f"{COMMANDS}::test_validation_is_what_eval_says_of_val"),
    mutant("eval_options_unchecked", EVALUATE, '    check(options)\n    if getattr(options, "protocol"', '    if getattr(options, "protocol"',
           WRONG_LINES, chosen="eval and batch"),
    mutant("eval_matches_no_classes", EVALUATE, "data = task.match(opened.data, model, used)", "data = opened.data",
           f"{COMMANDS}::test_eval_matches_classes_by_name"),
    mutant("eval_looks_for_bad_files_again", EVALUATE, "known_bad=read_bad_files(find(run).resolve().parent / BAD_FILES) if own else None",
           "known_bad=None", f"{BAD_RUNS}::test_a_run_that_goes_on_does_not_look_for_bad_files_again"),
    mutant("test_of_its_own_is_required", EVALUATE, 'if wanted == "test" and own and "test" not in data.splits:', "if False:", EVALUATED,
           chosen="split"),
    mutant("rate_is_not_planned", PLAN, '"accumulate": options.accumulate,', '"accumulate": 1,',
           "tests/learn/test_engine.py::test_accumulated_parts_reach_the_step"),
    mutant("ema_is_not_planned", PLAN, 'OPTIONAL = ("layer_decay", "ema", "sam")', 'OPTIONAL = ("layer_decay", "sam")',
           "tests/learn/test_engine.py::test_every_option_changes_what_is_learned", chosen="ema"),
    mutant("trial_rates_draw", PLAN, "    torch.set_rng_state(state)\n", "",
           "tests/learn/test_engine.py::test_a_rate_is_found_and_nothing_else_changes"),
    mutant("bad_files_kept", "src/vitrail/data/clean.py", 'return replace(leave_out(data, bad.names("before")), copies=copies), bad', "return replace(data, copies=copies), bad",
           f"{BAD_RUNS}::test_everything_is_as_on_the_cleaned_set"),
    mutant("resume_looks_for_bad_files_again", PREPARE, "known_bad=None if resumed is None else read_bad_files(resumed / BAD_FILES)",
           "known_bad=None", f"{BAD_RUNS}::test_a_run_that_goes_on_does_not_look_for_bad_files_again"),
    # Options: ranges, older and foreign keys, and what `auto` becomes.
    mutant("ranges_unchecked", OPTIONS, "isinstance(rule, Range | Choices)", "isinstance(rule, Choices)", MECHANISM, chosen="range"),
    mutant("choices_unchecked", OPTIONS, "isinstance(rule, Range | Choices)", "isinstance(rule, Range)", WRONG_LINES, chosen="channels"),
    mutant("above_includes_its_bound", OPTIONS, "number <= self.gt:", "number < self.gt:", WRONG_LINES, chosen="minutes"),
    mutant("least_is_off_by_one", OPTIONS, "number < self.ge:", "number < self.ge - 1:", WRONG_LINES,
           chosen="epochs or batch or workers"),
    mutant("most_is_excluded", OPTIONS, "elif number > self.le:", "elif number >= self.le:", MECHANISM, chosen="range"),
    mutant("shares_may_be_one", OPTIONS, "not 0 <= number < 1:", "not 0 <= number <= 1:", WRONG_LINES, chosen="path"),
    mutant("renamed_keys_ignored", OPTIONS, "key = renamed.get(name, name) if name not in known else name", "key = name",
           f"{MECHANISM}::test_earlier_keys_are_read_and_hinted_at"),
    mutant("both_spellings_accepted", OPTIONS, "        if key in found:\n", "        if False:\n",
           f"{MECHANISM}::test_earlier_keys_are_read_and_hinted_at"),
    mutant("retired_values_accepted", OPTIONS, 'name in retired and value in ("auto", retired[name]):', "name in retired:",
           f"{MECHANISM}::test_earlier_keys_are_read_and_hinted_at"),
    mutant("foreign_options_without_owner", OPTIONS, ' only" if owners else None', ' only" if False else None',
           f"{MECHANISM}::test_an_option_of_another_task_is_refused_with_its_owners"),
    mutant("owners_forget_earlier_names", REGISTRY, "{field.name for field in fields(kind)} | renamed_of(kind).keys()",
           "{field.name for field in fields(kind)}", f"{MECHANISM}::test_an_option_of_another_task_is_refused_with_its_owners"),
    mutant("config_does_not_say_the_task", REGISTRY, 'if (here / "config.yaml").is_file():', "if False:", "tests/tasks/test_registry.py"),
    mutant("silence_is_laid_over", OPTIONS, 'if value not in (None, "auto")})', "})",
           f"{MECHANISM}::test_a_verbs_options_are_laid_over_those_of_the_run"),
    mutant("any_device", "src/vitrail/machine.py", "if not there.get(device.type, False) or", "if", WRONG_LINES, chosen="device"),
    mutant("batch_is_half_of_that", IMAGES, 'min(recipe["batch_size"], len(train) // 8)', 'min(recipe["batch_size"], len(train) // 4)',
           "tests/run/test_check.py::test_the_suggestion_is_what_auto_would_choose"),
    mutant("gray_is_mirrored", IMAGES, 'choices["flip"] = shape[2] == 3 and not plain', 'choices["flip"] = not plain',
           f"{COMMANDS}::test_config_says_everything_and_what_auto_chose"),
    mutant("rate_is_twice_the_recipes", IMAGES, 'choices["lr"] = recipe["lr"]', 'choices["lr"] = 2 * recipe["lr"]',
           f"{RESUME}::test_an_option_that_differs_is_named"),
    mutant("recipe_wins_over_options", OPTIONS, 'if name not in without and getattr(options, name) == "auto"}', "if name not in without}",
           f"{MECHANISM}::test_a_recipe_fills_only_what_is_auto"),
    mutant("recipe_sizes_off_by_one", IMAGES, "for name, most in SIZES.items() if images <= most", "for name, most in SIZES.items() if images < most",
           "tests/tasks/classify/test_recipes.py"),
    # Figures: one record, one way to show them.
    mutant("shares_are_not_percent", METRIC, "return 100 * value if self.is_share else value", "return value", FIGURES, chosen="unit"),
    mutant("browser_scales_nothing", METRIC, '"factor": 100 if self.is_share else 1', '"factor": 1', FIGURES, chosen="unit"),
    mutant("headline_is_the_last", METRIC, "metric = first_measured(metrics, values)", "metric = first_measured(metrics[::-1], values)",
           FIGURES, chosen="headline"),
    mutant("first_measured_of_the_values", METRIC, "(metric for metric in metrics if metric.key in values)",
           "(metric for key in values for metric in metrics if metric.key == key)", FIGURES, chosen="headline"),
    mutant("others_are_described_first", METRIC, "for metric in (*known, *others)}", "for metric in (*others, *known)}", FIGURES,
           chosen="described"),
    mutant("runs_are_sorted_upside_down", "src/vitrail/run/runs.py", "not run.figure.higher_is_better else -1", "run.figure.higher_is_better else -1",
           "tests/run/test_runs.py", chosen="lowest"),
    mutant("highest_error_is_best", "src/vitrail/run_files.py", "sign = 1 if figure.higher_is_better else -1", "sign = 1",
           "tests/run/test_runs.py", chosen="lowest"),
    # How data is divided, and records.
    mutant("val_share_ignored", OPENING, "share = val_share if val_share is not None and asked else SHARE", "share = SHARE",
           f"{FOLDER}::test_a_share_of_train_and_val_validates_whatever_their_division"),
    mutant("division_forgets_the_seed", OPENING, "stratified_split(whole.labels, share, seed=seed, groups=groups)", "stratified_split(whole.labels, share, seed=0, groups=groups)",
           f"{FOLDER}::test_the_seed_decides_which_are_taken"),
    mutant("unknown_keys_accepted", RECORDS, "        if name not in known:\n", "        if False:\n", "tests/test_records.py", chosen="unknown"),
    mutant("true_is_a_number", RECORDS, "if isinstance(value, int) and not isinstance(value, bool):", "if isinstance(value, int):",
           "tests/test_records.py", chosen="types"),
    # The loop and its step.
    mutant("lowest_is_best", BEST, "better = score >= progress.target", "better = score <= progress.target", LEARNING,
           chosen="best or highest"),
    mutant("no_standard_error", BEST, "progress.target = score - evaluation.error", "progress.target = score", LEARNING,
           chosen="best or highest"),
    mutant("direction_ignored", LOOP, "if metric is None or metric.higher_is_better else", "if True else", LEARNING, chosen="lowest"),
    mutant("metrics_not_handed_to_the_loop", TRAIN, "bar, world, metrics=metrics_known)", "bar, world)",
           "tests/tasks/test_toy_task.py::test_it_trains_and_is_evaluated_on_the_command_line"),
    mutant("rate_of_the_steps_beginning", LOOP, "ahead=0.5)", "ahead=0.0)", LEARNING, chosen="rate"),
    mutant("loss_of_all_epochs", LOOP, "= progress.epoch + 1, 0, 0.0", "= progress.epoch + 1, 0, progress.loss_sum",
           f"{LEARNING}::test_the_train_loss_of_an_epoch_is_the_mean_of_its_steps"),
    mutant("average_not_validated", LOOP, "with stepper.averaged():\n                    _end_epoch",
           "with contextlib.nullcontext():\n                    _end_epoch", LEARNING, chosen="average"),
    mutant("epoch_started_again", LOOP, "train.batches(progress.epoch, progress.batch)", "train.batches(progress.epoch)",
           f"{RESUME}::test_stopped_within_an_epoch"),
    mutant("rate_not_halved", LOOP, "skipped, elapsed, 0.5 * factor", "skipped, elapsed, factor", LEARNING, chosen="three"),
    mutant("bad_step_taken", STEP, "        if taken.finite:\n            self.optimizer.step()", "        if True:\n            self.optimizer.step()",
           LEARNING, chosen="finite or three or wrong"),
    mutant("parts_not_scaled", STEP, "share = weight_of(part) / whole_weight", "share = 1.0", LEARNING, chosen="parts"),
    mutant("parts_count_the_same", STEP, "share = weight_of(part) / whole_weight", "share = 1.0 / len(parts)", LEARNING, chosen="parts"),
    mutant("clipped_at_twice_the_norm", STEP, "if norm > self.plan.clip:", "if norm > 2 * self.plan.clip:",
           f"{LEARNING}::test_a_gradient_is_no_longer_than_the_plan_allows"),
    mutant("clip_is_not_in_the_plan", PLAN, '"clip": options.clip_grad', '"clip": 1e9', "tests/run/test_train.py", chosen="clipped"),
    mutant("no_step_is_taken", STEP, "        if taken.finite:\n            self.optimizer.step()\n", "        if taken.finite:\n            pass\n",
           "tests/models/test_resnet.py", chosen="trains_on_digits"),
    mutant("warmup_is_no_part", "src/vitrail/learn/optim/schedule.py", "done = min(1.0, (progress - warmup) / (1.0 - warmup))",
           "done = min(1.0, progress)", "tests/learn/test_optim.py", chosen="schedule"),
    mutant("generator_not_put_back", f"{TRAINING}/state.py", '    torch.set_rng_state(parts["generator"]["cpu"])\n', "",
           f"{RESUME}::test_state_puts_weights_optimizer_and_generator_back"),
    mutant("a_step_is_recorded_twice", f"{TRAINING}/run_folder.py", "if _step(line) <= step]", "if _step(line) <= step + 1]",
           f"{RESUME}::test_crashed_between_two_checkpoints"),
    mutant("mean_is_a_sum", WORLD, "return (total / self.size).tolist()", "return total.tolist()", "tests/learn/test_world.py", chosen="means"),
    mutant("rows_as_they_came", WORLD, "order = indices.argsort(stable=True)", "order = torch.arange(len(indices))",
           "tests/learn/test_world.py", chosen="rows"),
    # Losses, measures and augmentation.
    mutant("softened_weights_are_balanced", "src/vitrail/tasks/segment/data.py", 'weights.sqrt() if kind == "softened" else weights', "weights",
           "tests/tasks/segment/test_data.py", chosen="softened"),
    mutant("class_weights_not_in_the_loss", "src/vitrail/tasks/segment/objective.py", "kind=self.kind, weights=self.weights,",
           "kind=self.kind, weights=None,", "tests/tasks/segment/test_objective.py", chosen="rare"),
    mutant("class_weights_not_in_the_objective", "src/vitrail/tasks/segment/task.py", "weights=setup.extras,", "weights=None,",
           "tests/tasks/segment/test_segment_runs.py", chosen="counted_once"),
    mutant("ssim_of_a_wide_window", "src/vitrail/learn/metrics/ssim.py", "WINDOW, SIGMA = 11, 1.5", "WINDOW, SIGMA = 11, 3.0",
           "tests/learn/test_psnr_ssim.py", chosen="ssim"),
    mutant("contrast_without_two_tau", "src/vitrail/learn/losses/contrast.py", "return 2 * temperature * F.", "return F.",
           "tests/learn/test_self_distillation.py", chosen="contrast"),
    mutant("teacher_does_not_warm_up", "src/vitrail/tasks/dino/objective.py", "warm_temperature(min(FIRST, last), last, done, warmup=WARMUP)",
           "last", "tests/tasks/test_views.py", chosen="warms"),
    mutant("teacher_warms_up_ten_times_as_fast", "src/vitrail/tasks/dino/objective.py", "FIRST, WARMUP = 0.04, 0.3", "FIRST, WARMUP = 0.04, 0.03",
           "tests/tasks/test_views.py", chosen="warms"),
    mutant("votes_of_200_neighbors", NEIGHBORS, VOTERS.format(20, "Int"), VOTERS.format(200, "Int"), "tests/learn/test_nearest_neighbors.py"),
    mutant("accuracy_of_200_neighbors", NEIGHBORS, VOTERS.format(20, "float"), VOTERS.format(200, "float"),
           "tests/learn/test_nearest_neighbors.py"),
    mutant("protocol_of_200_neighbors", "src/vitrail/run/protocols.py", "NEIGHBORS = 20  #", "NEIGHBORS = 200  #", "tests/run/test_protocols.py",
           chosen="without_a_mistake"),
    mutant("hues_five_times_as_far", "src/vitrail/data/color_views.py", "SATURATION, HUE = 0.4, 0.4, 0.2, 0.1", "SATURATION, HUE = 0.4, 0.4, 0.2, 0.5",
           "tests/data/test_views.py", chosen="hue"),
    mutant("a_turn_is_five_turns", "src/vitrail/data/color_views.py", "np.cos(2 * math.pi * turns), np.sin(2 * math.pi * turns)",
           "np.cos(10 * math.pi * turns), np.sin(10 * math.pi * turns)", "tests/data/test_views.py", chosen="hue"),
    mutant("probe_reports_validation", "src/vitrail/tasks/igpt/task.py", "probe.test[probe.best]", "probe.validation[probe.best]",
           "tests/tasks/igpt/test_task.py", chosen="data_to_report"),
    mutant("bleu_is_halved", "src/vitrail/tasks/translate/objective.py", '"bleu": self.bleu.score / 100.0', '"bleu": self.bleu.score / 200.0',
           "tests/tasks/translate/test_runs.py", chosen="files_of_a_run"),
    mutant("packed_blocks_never_recomputed", "src/vitrail/nn/blocks/stack.py", "again = self.checkpointing and", "again = False and",
           "tests/models/test_packing.py", chosen="recomputed"),
    mutant("users_error_is_code_1", "src/vitrail/cli/app.py", f"{SAID}        return 2\n", f"{SAID}        return 1\n",
           "tests/tasks/classify/test_packing.py", chosen="one_line"),
    # What the pages show.
    mutant("curves_without_steps", "src/vitrail/run/report.py", "read_steps(trained_in)", "()", "tests/run/test_train.py", chosen="curves"),
    mutant("page_opens_on_attention", "src/vitrail/deploy/studio/pages/attention/facts.py",
           'recommend_method(math.prod(grid), able) if config.num_classes else "attention"', '"attention"',
           "tests/deploy/studio/pages/test_views.py", chosen="opens_on"),
    # Loaders, cache and bad files.
    mutant("every_epoch_the_same", ORDER, "PCG64([self.seed, epoch])", "PCG64([self.seed, 0])", LOADED, chosen="order"),
    mutant("shares_of_another_rank", ORDER, "whole[self.rank :: self.world]", "whole[(self.rank + 1) % self.world :: self.world]", LOADED,
           chosen="processes"),
    mutant("last_batch_dropped", ORDER, "else -(-self.samples // self.batch)", "else max(1, self.samples // self.batch)", LOADED,
           chosen="partial"),
    mutant("pass_from_its_beginning", ORDER, "self.deal(epoch)[start:]", "self.deal(epoch)", LOADED, chosen="middle"),
    mutant("label_of_a_neighbour", BATCH, "self.labels(plain)\n        if self.mixing:", "self.labels(np.sort(plain))\n        if self.mixing:", LOADED, chosen="together"),
    mutant("validation_is_augmented", IMAGES, "how=Augmentation(**numbers) if training else None,", "how=Augmentation(**numbers),",
           f"{COMMANDS}::test_validation_is_what_eval_says_of_val"),
    mutant("validation_is_shuffled", IMAGES, "shuffle=training,", "shuffle=True,", f"{COMMANDS}::test_validation_is_what_eval_says_of_val"),
    mutant("cache_without_its_flags", CACHE, "budget // (image + 1)", "budget // image", "tests/data/test_cache.py", chosen="budget"),
    mutant("black_is_not_cached", CACHE, "if index < self.places and self.flags[index] else None",
           "if index < self.places and self.images[index].any() else None", "tests/data/test_cache.py", chosen="black"),
    mutant("bad_file_limit_ignored", BAD, "if count > self.limit * self.images:", "if False:", "tests/data/test_bad_files.py",
           f"{BAD_RUNS}::test_too_many_stop_the_run_before_it_begins"),
    mutant("bad_file_limit_off_by_one", BAD, "if count > self.limit * self.images:", "if count >= self.limit * self.images:",
           "tests/data/test_bad_files.py"),
)  # fmt: skip


def find_place(one: Mutant, files: dict[str, str]) -> tuple[str, str] | None:
    """(file, its text with the fault), or None where no place of the mutant is found."""
    for file, old, new in one.places:
        if files.get(file, "").count(old) == 1:
            return file, files[file].replace(old, new)
    for _, old, new in one.places:
        found = [file for file, text in files.items() if old in text]
        if len(found) == 1 and files[found[0]].count(old) == 1:
            return found[0], files[found[0]].replace(old, new)
    return None


def is_test_file(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def functions(text: str, file: str) -> Iterator[str]:
    """Ids of the test functions of a file; of one that is defined twice, once."""

    def walk(body: Iterable[ast.stmt], inside: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                yield f"{inside}::{node.name}"
            elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                yield from walk(node.body, f"{inside}::{node.name}")
            elif isinstance(node, ast.If | ast.Try | ast.With):
                yield from walk(node.body, inside)

    yield from dict.fromkeys(walk(ast.parse(text).body, file))


def tests_here() -> set[str]:
    """Ids of the test functions of the working tree, as it is on disk."""
    found: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if is_test_file(name):
            found |= set(functions(path.read_text(encoding="utf-8"), name))
    return found


def find_tests(one: Mutant, here: set[str]) -> list[str]:
    """Where its tests are now: ids of functions, or files."""
    files = {test.partition("::")[0] for test in here}
    found: list[str] = []
    for test in one.tests:
        inner = test.partition("::")[2]
        same = [now for now in here if inner and now.partition("::")[2] == inner]
        if test in here or test in files:
            found.append(test)
        elif len(same) == 1:
            found += same
    return found


def program() -> str:
    return str(PYTHON) if PYTHON.exists() else sys.executable


def run_tests(source: Path, tests: list[str], chosen: str) -> tuple[str, str]:
    """What became of them, "passed", "failed" or "none", and the last line that pytest said."""
    words = [
        program(),
        "-m",
        "pytest",
        "-x",
        "--tb=line",
        "-p",
        "no:cacheprovider",
        "-m",
        "",  # slow ones too
        *tests,
        *(["-k", chosen] if chosen else []),
    ]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return "failed", f"no end within {PATIENCE} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    lines = lines or (done.stdout + done.stderr).splitlines()[-1:] or [""]
    return {0: "passed", 5: "none"}.get(done.returncode, "failed"), re.sub(r"\s+", " ", lines[0])[:150]


def try_mutant(one: Mutant, compiled: Path, here: set[str], *, sound: bool) -> tuple[str, str, float]:
    """(verdict, why, seconds). `compiled` is src/ with its bytecode; `sound`: its tests are run without the fault, and must pass."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(compiled, source)
        files = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
        place, tests = find_place(one, files), find_tests(one, here)
        if place is None or not tests:
            return "LOST", "its text is nowhere in src/" if place is None else "none of its tests is there", 0.0
        if not sound:
            (Path(folder) / place[0]).write_text(place[1], encoding="utf-8")
        result, line = run_tests(source, tests, one.chosen)
    seconds = time.monotonic() - start
    if result == "none":
        return "LOST", f"no test is chosen by -k {one.chosen!r}", seconds
    if sound:
        return ("sound" if result == "passed" else "BROKEN"), line, seconds
    return ("killed" if result == "failed" else "SURVIVED"), line, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants alone")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument(
        "--check", action="store_true", help="run the tests without the faults: they must pass, or a kill says nothing"
    )
    parser.add_argument("--list", action="store_true", help="where each mutant's place and tests are; nothing is run")
    wish = parser.parse_args()
    chosen = [one for one in MUTANTS if wish.only is None or one.name in wish.only]
    here = tests_here()
    if wish.list:
        files = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
        lost = 0
        for one in chosen:
            place, tests = find_place(one, files), find_tests(one, here)
            lost += place is None or not tests
            print(f"{one.name}: {'LOST' if place is None else place[0]}; {', '.join(tests) or 'LOST'}")
        return 1 if lost else 0
    start, verdicts = time.monotonic(), list[str]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(wish.jobs) as pool:
        compiled = Path(folder) / "src"
        shutil.copytree(ROOT / "src", compiled, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run([program(), "-m", "compileall", "-q", str(compiled)], check=True)
        waiting = {pool.submit(try_mutant, one, compiled, here, sound=wish.check): one for one in chosen}
        for done in as_completed(waiting):
            one, (verdict, line, seconds) = waiting[done], done.result()
            verdicts.append(verdict)
            print(f"{verdict:8} {one.name:36} {seconds:5.0f} s  {line}", flush=True)
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
    print(f"{len(chosen)} mutants in {time.monotonic() - start:.0f} s: {counts}")
    return 1 if {"SURVIVED", "LOST", "BROKEN"} & set(verdicts) or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
