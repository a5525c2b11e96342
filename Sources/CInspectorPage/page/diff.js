// Differences of two texts, marked within words.

import { h } from "./dom.js";

const mostCells = 400000;
const words = /\s+|[\p{L}\p{N}\p{M}_]+|[^]/gu;

// Pieces of the second text against the first: [["same"|"less"|"more", text]].
function compare(before, after) {
	const parts = tidy(pieces(before.match(words) ?? [], after.match(words) ?? []));
	const result = [];
	for (let at = 0; at < parts.length; at += 1) {
		const [one, two] = [parts[at], parts[at + 1]];
		// A word for a word: look for what differs within.
		if (one[0] === "less" && two?.[0] === "more" && one[1].length < 400 && two[1].length < 400) {
			const inner = tidy(pieces([...one[1]], [...two[1]]));
			const same = inner.filter(([kind]) => kind === "same").reduce((sum, [, text]) => sum + text.length, 0);
			if (same * 5 >= 3 * Math.max(one[1].length, two[1].length)) result.push(...inner);
			else result.push(one, two);
			at += 1;
		} else {
			result.push(one);
		}
	}
	return result;
}

// Pieces by the longest common subsequence; texts too long for it differ as a whole between a common start and end.
function pieces(one, two) {
	let start = 0;
	while (start < one.length && start < two.length && one[start] === two[start]) start += 1;
	let end = 0;
	while (end < one.length - start && end < two.length - start && one[one.length - 1 - end] === two[two.length - 1 - end]) end += 1;
	const [a, b] = [one.slice(start, one.length - end), two.slice(start, two.length - end)];
	const parts = [["same", one.slice(0, start).join("")]];
	if (a.length * b.length > mostCells) parts.push(["less", a.join("")], ["more", b.join("")]);
	else parts.push(...common(a, b));
	parts.push(["same", one.slice(one.length - end).join("")]);
	return join(parts);
}

function common(a, b) {
	const width = b.length + 1;
	const lengths = new Uint16Array((a.length + 1) * width);
	for (let i = a.length - 1; i >= 0; i -= 1) {
		for (let j = b.length - 1; j >= 0; j -= 1) {
			lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1] + 1
				: Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
		}
	}
	const parts = [];
	let [i, j] = [0, 0];
	while (i < a.length || j < b.length) {
		if (i < a.length && j < b.length && a[i] === b[j]) {
			parts.push(["same", a[i]]);
			i += 1;
			j += 1;
		} else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
			parts.push(["less", a[i]]);
			i += 1;
		} else {
			parts.push(["more", b[j]]);
			j += 1;
		}
	}
	return parts;
}

// Neighbours of one kind become one piece; of a change, what went stands before what came.
function join(parts) {
	const result = [];
	let less = "", more = "";
	const flush = () => {
		if (less) result.push(["less", less]);
		if (more) result.push(["more", more]);
		less = more = "";
	};
	for (const [kind, text] of parts) {
		if (!text) continue;
		if (kind === "less") less += text;
		else if (kind === "more") more += text;
		else {
			flush();
			if (result.at(-1)?.[0] === "same") result.at(-1)[1] += text;
			else result.push(["same", text]);
		}
	}
	flush();
	return result;
}

// One equal letter or a space between two changes makes them harder to read, so it counts as changed.
function tidy(parts) {
	return join(parts.flatMap(([kind, text], at) =>
		kind === "same" && at > 0 && at < parts.length - 1 && /^([\p{L}\p{N}]|\s+)$/u.test(text) ? [["less", text], ["more", text]] : [[kind, text]]));
}

/** The second text with its differences from the first marked. */
export function marked(before, after) {
	return compare(before, after).map(([kind, text]) =>
		kind === "same" ? text : h(kind === "less" ? "del" : "ins", null, text));
}
