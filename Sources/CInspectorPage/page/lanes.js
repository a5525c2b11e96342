// Saves as a picture: a lane for each node, a dot for each save, lines from what its writer had seen.

import { h, s } from "./dom.js";
import { clock, millis } from "./values.js";

const left = 24;
const step = 27;
const rise = 44;

/**
 * The picture of saves in an order that follows what was seen.
 * @param {Array} saves each with dot, node, timestamp, after (dots), and apart
 * @param {{name, selected, place, now}} how `place` gives an address; `now` has nodes with the dots they have seen last
 */
export function lanes(saves, how) {
	const nodes = [...new Set([...saves.map((one) => one.node), ...(how.now ?? []).map((one) => one.node)])].sort((one, two) => one - two).slice(0, 64);
	const width = left + Math.max(4, saves.length + (how.now ? 3 : 1)) * step + 30;
	const height = nodes.length * rise + 62;
	const y = (node) => 30 + nodes.indexOf(node) * rise + 14;
	const at = new Map(saves.map((one, index) => [one.dot, { x: left + 16 + index * step, y: y(one.node), node: one.node }]));
	const title = `${how.name}: ${saves.length} saves at ${nodes.length} nodes${saves.some((one) => one.apart) ? "; some were made apart" : ""}.`;
	// Their names stay in view when the picture is scrolled.
	const names = s("svg.names", { width: 62, height, "aria-hidden": "true" }, nodes.map((node) => s("text.strong", { x: 4, y: y(node) + 4 }, `node ${node}`)));
	const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", label: title },
		bands(saves, at, height),
		nodes.map((node) => s("line.lane", { x1: 0, x2: width - 10, y1: y(node), y2: y(node) })),
		saves.map((one) => (one.after ?? []).filter((dot) => at.has(dot)).map((dot) => curve(at.get(dot), at.get(one.dot)))),
		times(saves, at, height),
		(how.now ?? []).map((one) => nowMark(one, at, { x: width - 50, y: y(one.node), node: one.node })),
		saves.map((one) => dotMark(one, at.get(one.dot), how)));
	svg.addEventListener("keydown", moveAlong);
	return h("div.lanes", names, svg);
}

const curve = (from, to, dash) => s("path.line", { node: from.node, "stroke-dasharray": dash ?? null,
	d: from.y === to.y ? `M${from.x} ${from.y} H${to.x}` : `M${from.x} ${from.y} C${from.x + 18} ${from.y} ${to.x - 24} ${to.y} ${to.x} ${to.y}` });

// Ground behind saves that were made apart.
function bands(saves, at, height) {
	const found = [];
	saves.forEach((one, index) => {
		if (!one.apart) return;
		const x = at.get(one.dot).x - step / 2;
		if (index > 0 && saves[index - 1].apart) found.at(-1).width += step;
		else found.push({ x, width: step });
	});
	return found.map((one) => [s("rect.band", { x: one.x, y: 8, width: one.width, height: height - 38, rx: 6 }), one.width >= 2 * step && s("text.small", { x: one.x + 6, y: 21 }, "apart")]);
}

function times(saves, at, height) {
	let end = 0;
	return saves.map((one) => {
		const { x } = at.get(one.dot);
		if (x < end) return null;
		const text = clock(new Date(millis(one.timestamp)));
		end = x + text.length * 7 + 14;
		return s("text.small", { x: x - 6, y: height - 12 }, text);
	});
}

function dotMark(save, place, how) {
	const isSelected = save.dot === how.selected;
	const mark = s(`circle.dot${save.apart ? ".apart" : ""}`, { node: place.node, cx: place.x, cy: place.y, r: isSelected ? 9 : 6.5 });
	const text = `${clock(new Date(millis(save.timestamp)))}, node ${save.node}, ${save.author ?? "no author"}${save.apart ? ", made apart" : ""}`;
	if (!how.place) return s("g", s("title", text), mark);
	// A list of one stop for the Tab key: the arrows move along it.
	return s("a", { href: how.place(save), tabindex: isSelected ? "0" : "-1", label: text, "aria-current": isSelected ? "true" : null, key: `dot ${save.dot}` },
		s("title", text), s("circle", { cx: place.x, cy: place.y, r: 13, fill: "transparent" }), mark);
}

function nowMark(one, at, place) {
	return [one.has.filter((dot) => at.has(dot)).map((dot) => curve(at.get(dot), place, "3 4")),
		s("rect.dot", { node: place.node, x: place.x - 7, y: place.y - 7, width: 14, height: 14, rx: 2, class: one.isOld ? "dot apart" : "dot" }),
		s("text.small", { x: place.x + 12, y: place.y + 4 }, one.isOld ? "cut off" : "now")];
}

function moveAlong(event) {
	if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
	const all = [...event.currentTarget.querySelectorAll("a")];
	const next = all[all.indexOf(document.activeElement) + (event.key === "ArrowRight" ? 1 : -1)];
	if (!next) return;
	event.preventDefault();
	all.forEach((one) => one.setAttribute("tabindex", one === next ? "0" : "-1"));
	next.focus();
}
