// Saves over time, with branches where nodes were apart; and conflicts over time.

import { byText, changeText, deed, undoButton } from "./blame.js";
import { newest } from "./conflicts.js";
import { asTable, choice, field, h, keepFocus, notice, pager, part, replace, s, scroller, table } from "./dom.js";
import { lanes } from "./lanes.js";
import { withOrder } from "./object.js";
import { labelsOf, loadModel } from "./schema.js";
import { authorText, clock, count, dotText, duration, millis, nodeMark, nodeOf, objectLink, objectOf, timeText } from "./values.js";

const most = 200;
const minute = 60000;

/** The view of saves over time. */
export async function timelinePage(view) {
	const schema = await loadModel();
	const value = (name) => view.query.get(name) ?? "";
	const picture = h("div");
	const chosen = h("div", { role: "region", label: "The chosen save" });
	const overTime = h("div");
	let saves = [];
	let hasOlder = false;
	// Moments at which the pages end; null is the newest.
	let ends = [null];
	let enough = 10000;

	// History is told from its beginning. So ask for ever longer spans before the end until one has enough.
	async function read() {
		const end = ends.at(-1);
		const from = end ?? Date.now();
		const oldest = millis(view.status.history?.oldest) || 0;
		let found = [];
		let isWhole = false;
		for (let span = enough; ; span *= 4) {
			const begin = from - span;
			isWhole = begin <= oldest;
			found = await page(isWhole ? null : begin, end);
			if (isWhole || found.length > most) {
				enough = Math.max(10000, span / 4);
				break;
			}
		}
		hasOlder = found.length > most;
		// Time of writing agrees with what was seen, and shows saves of nodes that were apart beside each other.
		found.sort((one, two) => millis(one.timestamp) - millis(two.timestamp) || one.timestamp.counter - two.timestamp.counter || nodeOf(one.dot) - nodeOf(two.dot));
		saves = withOrder(found.slice(-most).map((one) => ({ ...one, node: nodeOf(one.dot) })));
	}

	async function page(begin, end) {
		const iso = (moment) => new Date(moment).toISOString();
		const where = [begin !== null && `timestamp >= '${iso(begin)}'`, end !== null && `timestamp <= '${iso(end)}'`].filter(Boolean).join(" AND ");
		let found = [];
		let after = null;
		// A bound, for a node that takes thousands of saves a second.
		for (let turn = 0; turn < 20; turn += 1) {
			const answer = await view.get("/v1/history", { where, author: value("author"), entity: value("entity"), limit: 1000, after });
			found = [...found, ...answer.transactions].slice(-most - 1);
			if (answer.transactions.length < 1000) break;
			after = answer.token;
		}
		return found;
	}

	// The last saves on the picture that each node has.
	function now() {
		if (ends.at(-1) !== null || value("author") || value("entity")) return undefined;
		const { status } = view;
		const vectors = [{ node: status.node, vector: status.vector, isOld: false }, ...status.peers.map((one) => ({ node: one.node, vector: one.vector ?? {}, isOld: !one.connected }))];
		return vectors.map((one) => {
			const [last] = withOrder([...saves.map((save) => ({ ...save })), { dot: `${one.node}.now-1`, node: one.node, seen: one.vector }]).slice(-1);
			return { node: one.node, isOld: one.isOld, has: last.after };
		});
	}

	function draw() {
		const selected = value("save");
		// Who has scrolled back stays there.
		const old = picture.querySelector("#saves");
		const from = old && old.scrollLeft + old.clientWidth < old.scrollWidth - 40 ? old.scrollLeft : null;
		const to = (save) => `#/timeline?${new URLSearchParams({ ...Object.fromEntries(view.query), save: save.dot })}`;
		keepFocus(picture, () => replace(picture,
			saves.length ? h("div.picture", { id: "saves" }, lanes(saves, {
				name: "Saves over time", selected: saves.some((one) => one.dot === selected) ? selected : saves.at(-1).dot, place: to, now: now(),
			})) : h("p.empty", "No save matches."),
			h("p.legend", h("span", "● a save"), h("span", "○ made apart from another node"), h("span", "■ what a node has now"), h("span", "A line leads to a save from what its writer had seen.")),
			pager("Older", !hasOlder, count(saves.length, "save"), "Newer", ends.length === 1, turn),
			asTable("As a table", table("Saves, newest first", ["When", "Node", "Who", "Changes", "Follows"], [...saves].reverse().map((one) => [
				h("a", { href: to(one) }, timeText(millis(one.timestamp))), nodeMark(one.node), authorText(one.author), changesText(one), [one.after.map((dot) => [dotText(dot), " "]), one.apart && h("span.tag", "apart")]])))));
		const place = picture.querySelector("#saves");
		if (place) place.scrollLeft = from ?? place.scrollWidth;
		show().catch(() => {});
	}

	const changesText = (one) => {
		const tally = {};
		for (const change of one.changes) {
			const key = `${objectOf(change.object)?.entity ?? "?"} ${deed(change.kind)}`;
			tally[key] = (tally[key] ?? 0) + 1;
		}
		return Object.entries(tally).map(([key, number]) => `${number} ${key}`).join(", ");
	};

	async function turn(step) {
		if (step > 0) ends.pop();
		else ends.push(millis(saves[0].timestamp));
		await read();
		draw();
	}

	async function show() {
		const save = saves.find((one) => one.dot === value("save"));
		if (!save) return replace(chosen, h("p.quiet", "Choose a save to see what it changed."));
		const few = save.changes.slice(0, 50);
		const labels = await labelsOf(few.map((one) => one.object), view.signal);
		return replace(chosen, h("div.panel", h("h2", "Save ", dotText(save.dot)),
			h("p", byText(save)),
			table("What it changed", ["Object", "What", "Values"], few.map((change) => [
				objectLink(change.object, labels), deed(change.kind), changeText(change, (name) => schema.type(objectOf(change.object)?.entity, name), labels)])),
			save.changes.length > few.length && h("p.quiet", `and ${count(save.changes.length - few.length, "more change")}`),
			h("p.actions", undoButton(save.dot))));
	}

	async function drawConflicts() {
		const found = [];
		let after = null;
		do {
			const answer = await view.get("/v1/conflicts", { state: "all", limit: 500, after });
			found.push(...answer.conflicts);
			after = answer.next;
		} while (after && found.length < 2000);
		replace(overTime, bars(found), after && h("p.quiet", "The newest 2,000 are counted."));
	}

	const change = (name) => async (text) => {
		view.setQuery({ [name]: text, save: null });
		ends = [null];
		await read();
		draw();
	};
	await read();
	view.page("Timeline", h("p.lead", "Each dot is a save. Lines part where nodes had not heard of each other, and join where one had seen both."),
		h("div.filters", field("Author", { value: value("author"), "data-filter": "", key: "author-filter", on: { change: (event) => change("author")(event.target.value.trim()) } }),
			choice("Entity", [["", "any entity"], ...schema.names], value("entity"), change("entity"), { key: "entity" })),
		picture, chosen, part("Conflicts over time", overTime));
	draw();
	await drawConflicts().catch((error) => { if (error.name !== "AbortError") notice("bad", error.message); });
	view.onQuery = draw;
	let { conflicts } = view;
	view.onChange(async () => {
		if (ends.length > 1) return;
		await read();
		draw();
		if (conflicts !== view.conflicts) await drawConflicts();
		({ conflicts } = view);
	});
}

// Bars by five minutes, hours or days, whichever gives few enough.
function bars(conflicts) {
	const moments = conflicts.map((one) => [newest(one), one.state === "unresolved"]).filter(([moment]) => moment > 0);
	if (!moments.length) return h("p.quiet", "There are no conflicts.");
	const first = Math.min(...moments.map(([moment]) => moment));
	const last = Math.max(Date.now(), ...moments.map(([moment]) => moment));
	const unit = [1, 5, 15, 60, 360, 1440, 10080, 43200].map((one) => one * minute).find((one) => (last - first) / one <= 48) ?? 525600 * minute;
	const begin = Math.floor(first / unit) * unit;
	const number = Math.min(400, Math.floor((last - begin) / unit) + 1);
	const tally = Array.from({ length: number }, () => [0, 0]);
	for (const [moment, isWaiting] of moments) tally[Math.min(number - 1, Math.floor((moment - begin) / unit))][isWaiting ? 0 : 1] += 1;
	const top = Math.max(...tally.map(([one, two]) => one + two));
	const wide = Math.max(7, Math.min(40, Math.floor(760 / number)));
	const width = 60 + number * wide;
	const tall = 120;
	const scale = (count) => (count / top) * tall;
	const every = Math.ceil(110 / wide);
	const label = (index) => {
		const date = new Date(begin + index * unit);
		return unit < 1440 * minute ? clock(date).replace(/:\d\d$/, "") : date.toLocaleDateString(undefined, { day: "numeric", month: "short" });
	};
	const svg = s("svg", { viewBox: `0 0 ${width} ${tall + 44}`, width, height: tall + 44, role: "img", label: `${conflicts.length} conflicts; at most ${top} in ${duration(unit)}.` },
		s("text.small.end", { x: 36, y: 20 }, String(top)), s("text.small.end", { x: 36, y: tall + 14 }, "0"),
		s("line.lane", { x1: 42, x2: width - 8, y1: tall + 12, y2: tall + 12 }),
		tally.map(([waits, closed], index) => {
			const x = 44 + index * wide;
			return s("g", s("title", `${label(index)}: ${waits} wait, ${closed} settled or decided`),
				closed > 0 && s("rect.bar", { x, y: tall + 12 - scale(closed), width: wide - 2, height: scale(closed) }),
				waits > 0 && s("rect.bar.waits", { x, y: tall + 12 - scale(closed) - scale(waits), width: wide - 2, height: scale(waits) }),
				index % every === 0 && s("text.small", { x, y: tall + 32 }, label(index)));
		}));
	return [scroller("div.picture", "Conflicts over time", svg),
		h("p.legend", h("span.waits", "■ wait for a decision"), h("span.accent", "■ settled or decided"), h("span", `A bar is ${duration(unit)}.`)),
		asTable("As a table", table("Conflicts over time", ["From", "Waiting", "Settled or decided"], 
			tally.map(([one, two], index) => one + two > 0 && [label(index), String(one), String(two)]).filter(Boolean)))];
}
