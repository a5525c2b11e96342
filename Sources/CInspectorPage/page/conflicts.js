// The list of conflicts: filters, groups, marks, and policies for many.

import { encode, post } from "./api.js";
import { undoButton } from "./blame.js";
import { askAuthor, author, choosing, commandOf, resolve, undoAllButton } from "./decide.js";
import { asCommand, button, choice, dialog, field, h, headCell, keepFocus, notice, pager, replace, say, scroller, table, tableRow } from "./dom.js";
import { labelsOf, loadModel } from "./schema.js";
import { brief, conflictPlace, count, isolated, listed, millis, nodeMark, objectOf, shortID, timeText } from "./values.js";

const pageSize = 100;
// How many conflicts a filter by text or a group looks through.
const searched = 2000;

const states = [["unresolved", "waiting for a decision"], ["settled", "settled by a policy"], ["resolved", "decided"], ["all", "all"]];
const kinds = [["", "any kind"], ["update", "a property"], ["delete", "delete against writes"], ["row", "a whole row"], ["uniqueness", "a unique key"],
	["dangling", "a reference to nothing"], ["link", "a link"], ["count", "a count of links"], ["save", "discarded by a save"]];
const groups = [["", "nothing"], "entity", "policy", "author", "node", "kind"];
const stateNames = { unresolved: "waits", settled: "settled", resolved: "decided" };

/** A mark for the state of a conflict. */
export const stateMark = (state) => h("span.state", { "data-state": state }, stateNames[state] ?? state);

/** What a conflict is about, in a few words. */
export function subject(conflict) {
	const words = { delete: "deleted or kept", row: "the whole row", uniqueness: "the same key twice", count: "too many or too few links", save: "discarded by a save" };
	return conflict.property ?? words[conflict.kind] ?? conflict.kind;
}

/** The same with the object's name: "phone of Ada", "Ada: deleted or kept". */
export const about = (conflict, name) => (conflict.property ? [h("strong", subject(conflict)), " of ", isolated(name, 60)] : [isolated(name, 60), ": ", h("strong", subject(conflict))]);

// The text by which a conflict is grouped.
function groupOf(conflict, by) {
	const unique = (values) => [...new Set(values)].sort();
	if (by === "author") return listed(unique(conflict.sides.map((side) => side.author ?? "no author"))) || "nobody";
	if (by === "node") return listed(unique(conflict.sides.map((side) => `node ${side.node}`))) || "no node";
	if (by === "kind") return kinds.find(([key]) => key === conflict.kind)?.[1] ?? conflict.kind;
	return conflict[by] ?? "none";
}

/** The newest moment that a conflict names. */
export const newest = (conflict) => Math.max(0, ...conflict.sides.map((side) => millis(side.timestamp)));

function sideText(conflict, side, schema, labels) {
	if (side.deleted) return "deletes it";
	if (conflict.kind === "uniqueness") {
		const label = schema.labelOf(conflict.entity);
		return side.value?.values?.[label] ? h("bdi.value", String(side.value.values[label])) : brief(side.value?.object, "reference", labels);
	}
	return brief(side.value, schema.type(conflict.entity, conflict.property), labels);
}

const heads = ["Mark", "What", "Values that differ", "State", "Last written"];

function rowOf(state, conflict, labels) {
	const name = labels.get(conflict.object) ?? shortID(objectOf(conflict.object)?.id ?? conflict.id);
	const mark = h("input", {
		type: "checkbox", checked: state.marks.has(conflict.id), key: `mark ${conflict.id}`, label: `Mark ${subject(conflict)} of ${name}`,
		on: { change: (event) => { state.mark([conflict], event.target.checked); state.drawMarked(); } },
	});
	return tableRow(heads, [
		mark,
		[h("a.what", { href: conflictPlace(conflict.id), "data-open": "", key: `open ${conflict.id}` }, about(conflict, name)),
			h("div.quiet", conflict.entity, " · ", conflict.policy, conflict.short && [" · ", h("code", conflict.short)], conflict.violation && h("span.bad-text", ` · ${conflict.violation}`))],
		conflict.sides.length ? h("ul.sides", conflict.sides.slice(0, 4).map((side) => h("li", nodeMark(side.node), " ",
			h("span.quiet", side.author ? isolated(side.author, 24) : "no author"), " ", h(side.visible ? "strong" : "span", sideText(conflict, side, state.schema, labels)),
			side.visible && conflict.open && h("span.tag", "shown"))), conflict.sides.length > 4 && h("li.quiet", `and ${conflict.sides.length - 4} more`))
			: h("span.quiet", conflict.reason?.text ?? ""),
		stateMark(conflict.state),
		timeText(newest(conflict)),
	], { "data-row": conflict.id });
}

function matches(conflict, text, labels) {
	const { property, short, policy, decision, sides } = conflict;
	const all = encode([property, short, policy, decision?.author, decision?.note, labels.get(conflict.object), sides.map((side) => [side.author, side.context, side.value])]).toLowerCase();
	return text.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

/** The view of all conflicts. */
export async function conflictList(view) {
	const state = {
		schema: await loadModel(), marks: new Map(), conflicts: [], next: null, start: [null], window: 0, labels: null, isCut: false,
	};
	state.mark = (list, isOn) => {
		for (const one of list) {
			if (isOn) state.marks.set(one.id, one);
			else state.marks.delete(one.id);
		}
	};
	const value = (name) => view.query.get(name) ?? "";
	const stateOf = () => value("state") || "unresolved";
	const isSearch = () => Boolean(value("q") || value("group"));
	const list = h("div", { id: "list" });
	const marked = h("div.marked", { role: "region", label: "Marked conflicts" });
	const total = h("p.quiet", { role: "status" });

	async function read() {
		const filter = { state: stateOf(), entity: value("entity"), kind: value("kind") };
		const found = [];
		let after = isSearch() ? null : state.start.at(-1);
		do {
			const answer = await view.get("/v1/conflicts", { ...filter, limit: isSearch() ? 500 : pageSize, after });
			found.push(...answer.conflicts);
			after = answer.next;
		} while (isSearch() && after && found.length < searched);
		state.conflicts = found;
		state.next = isSearch() ? null : after;
		state.isCut = isSearch() && Boolean(after);
		state.labels = await labelsOf(found.map((one) => one.object), view.signal);
		const open = new Set(found.map((one) => one.id));
		for (const id of state.marks.keys()) if (!open.has(id)) state.marks.delete(id);
	}

	function shown() {
		const text = value("q").trim();
		return text ? state.conflicts.filter((one) => matches(one, text, state.labels)) : state.conflicts;
	}

	function draw() {
		const all = shown();
		const by = value("group");
		state.window = Math.max(0, Math.min(state.window, Math.floor((all.length - 1) / pageSize) * pageSize));
		const sorted = by ? [...all].sort((one, two) => groupOf(one, by).localeCompare(groupOf(two, by))) : all;
		const page = sorted.slice(state.window, state.window + pageSize);
		const rows = page.flatMap((conflict, index) => [
			by && (!index || groupOf(page[index - 1], by) !== groupOf(conflict, by)) && groupHead(groupOf(conflict, by), sorted, by), rowOf(state, conflict, state.labels)]).filter(Boolean);
		keepFocus(list, () => replace(list, page.length ? table("Conflicts", [headCell(h("span.hidden", heads[0])), ...heads.slice(1)], rows, "list") : nothing(), pages(sorted.length)));
		total.textContent = all.length ? `${count(all.length, "conflict")}${state.next ? " on this page, and there are more" : state.isCut ? ` among the newest ${searched.toLocaleString("en")}` : ""}.` : "";
		state.drawMarked();
	}

	function groupHead(name, sorted, by) {
		const members = sorted.filter((one) => groupOf(one, by) === name);
		return h("tr.group", { role: "row" }, h("th", { role: "rowheader", scope: "rowgroup", colspan: "5" }, isolated(name), ` (${members.length}) `,
			button("Mark these", () => { state.mark(members, true); draw(); say(`${count(state.marks.size, "conflict")} marked.`); }, { class: "small", key: `group ${name}` })));
	}

	function nothing() {
		if (value("q") || value("entity") || value("kind")) return h("p.empty", "No conflict matches this filter.");
		return stateOf() === "unresolved"
			? h("div.empty", h("p", h("strong", "No conflict waits for a decision.")), h("p", "New ones appear here by themselves. ", h("a", { href: "#/conflicts?state=all" }, "Show all, also those that were decided")))
			: h("p.empty", "There are none.");
	}

	function pages(length) {
		const isFirst = isSearch() ? state.window === 0 : state.start.length === 1;
		const isLast = isSearch() ? state.window + pageSize >= length : !state.next;
		if (isFirst && isLast) return null;
		const turn = async (step) => {
			if (isSearch()) state.window += step * pageSize;
			else if (step > 0) state.start.push(state.next);
			else state.start.pop();
			if (!isSearch()) await read();
			draw();
			scrollTo(0, 0);
		};
		return pager("Newer", isFirst, `Page ${isSearch() ? state.window / pageSize + 1 : state.start.length}`, "Older", isLast, turn);
	}

	state.drawMarked = () => {
		const number = state.marks.size;
		const page = shown().slice(state.window, state.window + pageSize);
		keepFocus(marked, () => replace(marked,
			h("label.field.inline", h("input", { type: "checkbox", key: "all", disabled: !page.length, checked: page.length > 0 && page.every((one) => state.marks.has(one.id)),
				on: { change: (event) => { state.mark(page, event.target.checked); draw(); } } }), h("span", "Mark this page")),
			number > 0 && [h("strong", `${number} marked`),
				button("Decide by a policy…", decideMarked, { class: "primary", key: "policy" }),
				button("Clear", () => { state.marks.clear(); draw(); }, { key: "clear" })],
			number === 0 && page.length > 0 && stateOf() !== "resolved" && button("Decide all of this filter…", decideAll, { key: "bulk" })));
	};

	async function decideMarked() {
		const list = [...state.marks.values()];
		const form = await policyDialog(`Decide ${count(list.length, "conflict")} by a policy`, [],
			commandOf("conflicts", "resolve", ...list.slice(0, 20).map((one) => one.id), "--policy", choosing[1][0]) + (list.length > 20 ? " # and the others" : ""));
		if (!form || !(await askAuthor())) return;
		const done = [];
		const problems = [];
		for (const conflict of list) {
			try {
				await resolve(conflict, { policy: form.elements.policy.value }, form.elements.note.value.trim());
				done.push(conflict.id);
				state.marks.delete(conflict.id);
			} catch (error) {
				problems.push([conflict, error.message]);
				if (error.status === 403 || error.status === 0) break;
			}
		}
		notice(problems.length ? "bad" : "good", `Decided ${done.length} of ${list.length}.`,
			problems.slice(0, 5).map(([conflict, text]) => h("p", `${conflict.id}: ${text}`)),
			done.length > 0 && undoAllButton(`Undo these ${done.length}`, done, view.status.cluster));
		await refresh();
	}

	// One transaction for all, which the node makes.
	async function decideAll() {
		const entity = value("entity");
		if (!entity) {
			notice("note", "Choose an entity first. Then all of its conflicts can be decided in one save.");
			return;
		}
		const filter = { entity, state: stateOf(), kind: value("kind") || undefined };
		const form = await policyDialog(`Decide all conflicts of ${entity} by a policy`, [
			h("p", "In one save the node decides all of this entity, kind and state. First it shows what it would write. The filter by text is not used."),
			field("Only of objects that match this predicate", { name: "where", placeholder: "name BEGINSWITH 'A'" })], null, "Show what it would do");
		if (!form || !(await askAuthor())) return;
		const body = { ...filter, where: form.elements.where.value.trim() || undefined, policy: form.elements.policy.value, note: form.elements.note.value.trim() || undefined, author: author(), context: "inspector" };
		try {
			const would = await post("/v1/conflicts/resolution", { ...body, dryRun: true });
			const labels = await labelsOf(would.conflicts.map((one) => one.object));
			const line = (one) => h("li", isolated(labels.get(one.object) ?? one.id), " ", one.property, " gets ", one.deleted ? "deleted" : brief(one.value, state.schema.type(entity, one.property)));
			const sure = await dialog(`${count(would.count, "conflict")} would be decided`, scroller("div.window", "What would be written", h("ul", would.conflicts.slice(0, 100).map(line))), would.count ? "Decide them" : null);
			if (!sure || !would.count) return;
			const answer = await post("/v1/conflicts/resolution", { ...body, dryRun: false });
			notice("good", `Decided ${count(answer.count, "conflict")} in one save.`, answer.transaction && undoButton(answer.transaction));
			await refresh();
		} catch (error) {
			notice("bad", error.message);
		}
	}

	async function refresh() {
		await read();
		draw();
	}

	const change = (name) => async (text) => {
		view.setQuery({ [name]: text });
		state.start = [null];
		state.window = 0;
		await refresh();
	};
	let typing = null;
	const filter = field("Filter by text", { value: value("q"), "data-filter": "", key: "filter", type: "search", placeholder: "a name, an author, a value", on: { input: (event) => {
		clearTimeout(typing);
		typing = setTimeout(() => change("q")(event.target.value), 200);
	} } });
	await read();
	view.page("Conflicts",
		h("p.lead", "Each row is a value that was changed at different nodes while they had not heard of each other. Open one to see who wrote what, and decide."),
		h("div.filters", { role: "search" }, choice("State", states, stateOf(), change("state"), { key: "state" }),
			choice("Entity", [["", "any entity"], ...state.schema.names], value("entity"), change("entity"), { key: "entity" }),
			choice("Kind", kinds, value("kind"), change("kind"), { key: "kind" }),
			choice("Group by", groups, value("group"), change("group"), { key: "group" }), filter),
		marked, total, list);
	draw();
	let { conflicts } = view;
	view.onChange(async (batch) => {
		const objects = new Set(state.conflicts.map((one) => one.object));
		if (conflicts === view.conflicts && batch.length && !batch.some((one) => one.changes.some((change) => objects.has(change.object)))) return;
		({ conflicts } = view);
		const before = new Set(state.conflicts.map((one) => one.id));
		await refresh();
		const fresh = state.conflicts.filter((one) => !before.has(one.id)).length;
		if (fresh) say(`${count(fresh, "new conflict")}.`);
	});
}

function policyDialog(title, more, command, accept = "Decide") {
	return dialog(title, [more,
		choice("Take", choosing, choosing[1][0], () => {}, { name: "policy" }),
		field("Note, kept with the decision", { name: "note", maxlength: "1000" }),
		command && asCommand(command)], accept);
}
