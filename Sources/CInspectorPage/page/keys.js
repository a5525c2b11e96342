// Keys, which people can turn off: single letters get in the way of those who speak to their computer.

import { remember, remembered } from "./decide.js";
import { choice, dialog, h } from "./dom.js";

const setting = "tributary.keys";
const general = [
	["j, k", "next or previous row"], ["Enter", "open the row"], ["x", "mark the row"],
	["1 to 9", "keep this side of the shown conflict"], ["u", "undo the shown decision"],
	["/", "go to the filter"], ["g, then c d n t m", "go to conflicts, data, nodes, timeline, model"], ["?", "this help"],
];
let isGoing = false;

const areOn = () => remembered(setting) !== "off";

/** Shows all keys, and the switch for them. */
export async function showHelp() {
	await dialog("Keys and help", [
		h("p", "Every node saves. When people change one value while their nodes are apart, all their values are kept. The page shows who wrote what. You decide, and can undo that."),
		h("dl.keys", general.map(([key, text]) => h("div", h("dt", h("kbd", key)), h("dd", text)))),
		choice("Single keys", [["on", "on"], ["off", "off"]], areOn() ? "on" : "off", (value) => remember(setting, value)),
	], null);
}

const isTyping = ({ target }) => target instanceof Element && target.closest("input:not([type=checkbox]), textarea, select, dialog");

function move(step) {
	const rows = [...document.querySelectorAll("#main [data-row]")].filter((row) => row.offsetParent);
	if (!rows.length) return;
	const at = rows.findIndex((row) => row.contains(document.activeElement));
	const row = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
	(row.querySelector("[data-open]") ?? row).focus();
	row.scrollIntoView({ block: "nearest" });
}

/** Does what a key stands for, unless somebody types. */
export function handleKey(event, view) {
	if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event) || !areOn()) return;
	const key = event.key;
	const row = document.activeElement?.closest?.("[data-row]");
	const places = { c: "conflicts", d: "data", n: "nodes", t: "timeline", m: "model" };
	const wasGoing = isGoing;
	isGoing = false;
	let action = null;
	if (wasGoing && places[key]) action = () => { location.hash = `#/${places[key]}`; };
	else if (key === "g") action = () => { isGoing = true; };
	else if (key === "?") action = showHelp;
	else if (key === "j") action = () => move(1);
	else if (key === "k") action = () => move(-1);
	else if (key === "x" && row) action = () => row.querySelector("input[type=checkbox]")?.click();
	else if (key === "/") action = () => document.querySelector("#main [data-filter]")?.focus();
	else if (view?.keys[key]) action = view.keys[key];
	if (!action) return;
	event.preventDefault();
	action();
}
