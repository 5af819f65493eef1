// Rows of attention fetched before they are asked for, when nothing else is under way: all of a small grid, the neighbors in a large one.

import { ask, peek } from "./looks.js";
import { attentionRest } from "./shown.js";
import { chosenCell, gridOf, headOf, layerOf, state } from "./state.js";

const SMALL = 64;
const REACH = 2;

export function prefetch(one) {
  if (!one.model.attention || !["attention", "heads", "steps"].includes(state.tab)) return;
  const mine = (one.round = (one.round ?? 0) + 1);
  setTimeout(() => mine === one.round && fetchNext(one, mine, waiting(one)), 60);
}

function waiting(one) {
  const [rows, columns] = gridOf(one);
  const cell = chosenCell(one);
  const all = Array.from({ length: rows * columns }, (_, i) => i);
  if (all.length > SMALL && cell === null) return [];
  const away = (other) => Math.max(Math.abs(Math.floor(other / columns) - Math.floor(cell / columns)), Math.abs((other % columns) - (cell % columns)));
  const near = all.length > SMALL ? all.filter((other) => away(other) <= REACH) : all;
  return cell === null ? near : near.sort((a, b) => away(a) - away(b));
}

async function fetchNext(one, mine, cells) {
  const [look, layer, head] = [one.look, layerOf(one), headOf(one)];
  for (const cell of cells) {
    const rest = attentionRest(one, cell, layer, head);
    if (peek(one, rest) !== undefined) continue;
    try {
      await ask(one, rest, { spare: true });
    } catch {
      return; // a guess that failed is no error: the real question will tell
    }
    if (mine !== one.round || one.look !== look || layer !== layerOf(one) || head !== headOf(one)) return;
  }
}
