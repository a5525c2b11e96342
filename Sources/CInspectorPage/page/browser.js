// The data browser: objects of an entity that match a predicate, page by page.

import { commandOf } from "./decide.js";
import { asCommand, button, choice, commandLine, field, h, headCell, keepFocus, notice, pager, replace, table, tableRow } from "./dom.js";
import { labelsOf, loadModel } from "./schema.js";
import { brief, count, dataPlace, isolated, millis, nodeMark, nodeOf, objectOf, objectPlace, shortID, timeText } from "./values.js";

const pageSize = 50;
const fewColumns = 7;

/** The view of an entity's objects. */
export async function browser(view, entity) {
	const schema = await loadModel();
	if (!entity || !schema.entity(entity)) {
		if (entity) notice("bad", `The model has no entity ${entity}.`);
		entity = schema.names.find((name) => !schema.entity(name).abstract) ?? schema.names[0];
		if (!entity) {
			view.page("Data", h("p", "The model has no entities."));
			return;
		}
		view.path = `data/${encodeURIComponent(entity)}`;
		view.setQuery({});
	}
	const label = schema.labelOf(entity);
	const all = [...schema.attributes(entity).map((one) => one.name), ...schema.relationships(entity).filter((one) => !one.toMany).map((one) => one.name)];
	const ordered = [label, ...all.filter((name) => name !== label)].filter(Boolean);
	const value = (name) => view.query.get(name) ?? "";
	const columns = () => (value("columns") === "all" ? ordered : ordered.slice(0, fewColumns));
	const list = h("div");
	const problem = h("div", { role: "alert" });
	let total = null;

	const request = () => ({
		entity, predicate: value("where") || undefined, sort: value("sort") ? [value("sort")] : undefined, at: value("at") || undefined,
	});

	async function read() {
		const offset = Number(value("from")) || 0;
		try {
			const [answer, counted] = await Promise.all([
				view.post("/v1/fetch", { ...request(), limit: pageSize, offset, properties: columns(), versions: value("who") === "yes" || undefined }),
				view.post("/v1/fetch", { ...request(), sort: undefined, resultType: "count" })]);
			total = counted.count;
			replace(problem);
			const labels = await labelsOf(answer.objects.flatMap((one) => Object.values(one.values)).filter((one) => objectOf(one)), view.signal);
			keepFocus(list, () => replace(list, content(answer.objects, offset, labels)));
		} catch (error) {
			if (error.name === "AbortError") throw error;
			replace(problem, wrong(error));
			replace(list);
		}
	}

	// What is wrong with a predicate, and at which character.
	function wrong(error) {
		const where = value("where");
		const at = error.details?.offset;
		return h("div.panel", h("p.bad-text", error.message),
			error.code === "invalidPredicate" && typeof at === "number" && h("pre", [...where].slice(0, at).join(""), h("del", { title: "here" }, [...where][at] ?? "▲"), [...where].slice(at + 1).join("")));
	}

	function content(objects, offset, labels) {
		if (!objects.length) return h("p.empty", value("where") ? "No object matches." : "There are none.");
		const heads = ["Object", ...columns()];
		const rows = objects.map((object) => {
			const { id } = objectOf(object.id);
			return tableRow(heads, [
				h("a", { href: objectPlace(object.id) + (value("at") ? `?at=${encodeURIComponent(value("at"))}` : ""), "data-open": "", key: object.id, title: id }, shortID(id),
					object.entity !== entity && ` ${object.entity}`, object.conflicted && h("span.state", { "data-state": "unresolved" }, "conflict")),
				...columns().map((name) => [brief(object.values[name], schema.type(entity, name), labels), writer(object, name)])], { "data-row": object.id });
		});
		const last = offset + objects.length;
		const turn = (step) => { view.setQuery({ from: Math.max(0, offset + step * pageSize) || null }); return read(); };
		return [h("p.quiet", { role: "status" }, `${count(total, "object")}; ${offset + 1} to ${last} are shown.`),
			table(`Objects of ${entity}`, heads.map(headOf), rows, "data"),
			(offset > 0 || last < total) && pager("Back", offset === 0, "", "On", last >= total, turn)];
	}

	const headOf = (name, index) => headCell(index && sortable(name) ? button([name, mark(name)], () => sortBy(name), { class: "head", key: `sort ${name}` }) : name,
		{ "aria-sort": sorted(name) });
	const sortable = (name) => !["binary", "reference"].includes(schema.type(entity, name));
	const sorted = (name) => (value("sort") === name ? "ascending" : value("sort") === `-${name}` ? "descending" : null);
	const mark = (name) => h("span", { "aria-hidden": "true" }, { ascending: " ▲", descending: " ▼" }[sorted(name)] ?? "");

	function writer(object, name) {
		const version = object.versions?.[name];
		return version && h("div.quiet", nodeMark(nodeOf(version.dot)), " ", timeText(millis(version.timestamp)), version.siblings.length > 1 && ` · ${version.siblings.length} values wait`);
	}

	function sortBy(name) {
		view.setQuery({ sort: value("sort") === name ? `-${name}` : name, from: null });
		return read();
	}

	const form = h("form.filters", { role: "search", on: { submit: (event) => {
		event.preventDefault();
		view.setQuery({ where: form.elements.where.value.trim(), at: form.elements.at.value.trim(), from: null });
		command();
		read();
	} } },
	choice("Entity", schema.names, entity, (name) => { location.hash = dataPlace(name); }, { key: "entity" }),
	h("div.wide", field("Predicate", { name: "where", value: value("where"), "data-filter": "", key: "where", placeholder: label ? `${label} BEGINSWITH[c] 'a'` : "age > 30" })),
	field("As it was at (empty: now)", { name: "at", value: value("at"), placeholder: "2026-01-31T12:00:00Z" }),
	h("div", h("button.primary", { type: "submit" }, "Find")));
	const toggle = (name, on, text) => h("label.field.inline", h("input", { type: "checkbox", checked: value(name) === on, key: name, on: { change: (event) => {
		view.setQuery({ [name]: event.target.checked ? on : null });
		read();
	} } }), h("span", text));
	const commandPlace = h("div");
	const command = () => replace(commandPlace, commandLine(commandOf("fetch", entity, ...(value("where") ? ["--where", value("where")] : []), ...(value("sort") ? ["--sort", value("sort")] : []))));
	command();
	view.page(["Data: ", isolated(entity)], form,
		h("div.marked", toggle("who", "yes", "Show who wrote each value"), ordered.length > fewColumns && toggle("columns", "all", "All columns"),
			asCommand(commandPlace)),
		problem, list);
	await read();
	view.onChange(async (batch) => {
		if (value("at")) return;
		if (!batch.length || batch.some((one) => one.changes.some((change) => objectOf(change.object)))) await read();
	});
}
