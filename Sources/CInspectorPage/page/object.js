// One object: its values with blame, what it is related to, its conflicts, its life.

import { objectPath } from "./api.js";
import { blameTable, byText, changeText, deed, neighbours, undoButton } from "./blame.js";
import { stateMark, subject } from "./conflicts.js";
import { commandOf } from "./decide.js";
import { commandLine, field, h, later, part, scroller, table } from "./dom.js";
import { lanes } from "./lanes.js";
import { labelsOf, loadModel } from "./schema.js";
import { authorText, brief, conflictPlace, dataPlace, dotText, isolated, shortID } from "./values.js";

/** The view of one object. */
export async function objectPage(view, entity, id) {
	const schema = await loadModel();
	const uri = `x-tributary://${view.status.cluster}/${entity}/${id}`;
	const path = objectPath({ entity, id });
	const at = view.query.get("at");

	async function load() {
		let object = null;
		let problem = null;
		try {
			object = await view.get(path, { at });
		} catch (error) {
			if (error.name === "AbortError") throw error;
			problem = error.message;
		}
		const labels = await labelsOf([uri], view.signal);
		const name = object?.values[schema.labelOf(object.entity)] || labels.get(uri) || shortID(id);
		view.page(isolated(name),
			h("p.path", h("a", { href: dataPlace(entity) }, entity), " › ", h("code", id)),
			problem && h("p.bad-text", { role: "alert" }, problem),
			object && object.id !== uri && h("p", "Another object has the same unique key and is shown for this one: ", h("code", object.id)),
			object?.conflicted && h("p", h("span.state", { "data-state": "unresolved" }, "conflict"), " A decision is wanted: see below."),
			past(), object && (at ? oldValues(object) : [part("Values, and who wrote them", blameTable(view, schema, object)), h("section.panel", neighbours(view, schema, object))]),
			part("Conflicts of this object", conflicts()), part("Its life", life()),
			h("section", h("details", h("summary", "Version, address, command"), object && h("p", "Version ", h("code", object.version)), h("p", "Address ", h("code", uri)),
				commandLine(commandOf("fetch", entity, "--where", `SELF == '${uri}'`)))));
	}

	function past() {
		const form = h("form.marked", { on: { submit: (event) => {
			event.preventDefault();
			const moment = form.elements.at.value.trim();
			location.hash = `#/object/${encodeURIComponent(entity)}/${id}${moment ? `?at=${encodeURIComponent(moment)}` : ""}`;
		} } }, field("As it was at (empty: now)", { name: "at", value: at ?? "", placeholder: "2026-01-31T12:00:00Z" }), h("button", { type: "submit" }, "Show"));
		return form;
	}

	function oldValues(object) {
		return h("section", h("h2", "Values at ", isolated(at)), table("Values", ["Property", "Value"], Object.entries(object.values).map(([name, value]) => [name, brief(value, schema.type(entity, name))])));
	}

	const conflicts = () => later(async () => {
		const answer = await view.get("/v1/conflicts", { state: "all", object: uri, limit: 50 });
		return answer.conflicts.length ? table("Conflicts of this object", ["What", "State", "Values", "Decided by"], answer.conflicts.map((one) => [
			h("a", { href: conflictPlace(one.id) }, subject(one)), stateMark(one.state),
			one.sides.slice(0, 4).map((side, index) => [index > 0 && " or ", side.deleted ? "a delete" : brief(side.value, schema.type(entity, one.property))]),
			one.decision ? [authorText(one.decision.author), one.decision.note && [" – ", h("q", one.decision.note)]] : h("span.quiet", one.state === "unresolved" ? "nobody yet" : "a policy")])) : h("p.quiet", "None is known.");
	});

	const life = () => later(async () => {
		const { entries, complete } = await view.get(`${path}/log`, { limit: 200 });
		if (!entries.length) return h("p.quiet", "History has no save of it.");
		const labels = await labelsOf(entries.flatMap((one) => Object.values(one.values ?? {})), view.signal);
		const rows = [...entries].reverse().map((one) => [byText(one),
			[h("strong", deed(one.kind)), changeText(one, (name) => schema.type(entity, name), labels)], [dotText(one.dot), " ", undoButton(one.dot)]]);
		return [!complete && h("p.quiet", "Older history was purged."), scroller("div.picture", "The object's life as a picture", lanes(markApart(entries), { name: "The object's life" })),
			table("The saves of this object, newest first", ["Who", "What", "Save"], rows)];
	});

	await load();
	view.onChange(async (batch) => {
		if (!at && (!batch.length || batch.some((one) => one.changes.some((change) => change.object === uri)))) await load();
	});
}

/** Adds to saves which of the others each directly follows, from what their writers had seen. */
export function withOrder(saves) {
	const split = (dot) => {
		const at = dot.lastIndexOf("-");
		return [dot.slice(0, at), Number(dot.slice(at + 1))];
	};
	const known = saves.map((one) => split(one.dot));
	const sees = (later, earlier) => {
		const [actor, sequence] = known[earlier];
		return known[later][0] === actor ? known[later][1] > sequence : Number(saves[later].seen?.[actor] ?? 0) >= sequence;
	};
	const lastOf = new Map();
	return saves.map((save, index) => {
		// The last save of each actor that this one had seen; of those, the ones that no other of them had seen.
		const candidates = [];
		for (const list of lastOf.values()) {
			for (let at = list.length - 1; at >= 0; at -= 1) {
				if (sees(index, list[at])) {
					candidates.push(list[at]);
					break;
				}
			}
		}
		const own = known[index][0];
		const after = candidates.filter((one) => known[one][0] === own || !candidates.some((other) => other !== one && sees(other, one))).map((one) => saves[one].dot);
		const apart = saves.some((other, at) => at !== index && other.node !== save.node && (at < index ? !sees(index, at) : !sees(at, index)));
		if (!lastOf.has(own)) lastOf.set(own, []);
		lastOf.get(own).push(index);
		return { ...save, after, apart };
	});
}

// A log tells the order by what each entry follows. Entries of which neither reaches the other were made apart.
function markApart(entries) {
	const reach = new Map();
	for (const one of entries) reach.set(one.dot, new Set(one.after.flatMap((dot) => [dot, ...(reach.get(dot) ?? [])])));
	return entries.map((one) => ({ ...one, apart: entries.some((other) => other !== one && !reach.get(one.dot).has(other.dot) && !reach.get(other.dot).has(one.dot)) }));
}
