// Blame: beside each value who wrote it, what it replaced, and what it beat; and what stands around an object.

import { objectPath, post } from "./api.js";
import { askAuthor, author } from "./decide.js";
import { button, dialog, h, later, notice, table } from "./dom.js";
import { labelsOf } from "./schema.js";
import { authorText, brief, conflictPlace, count, dotText, isolated, millis, nodeMark, nodeOf, objectLink, objectList, objectOf, timeText, whole } from "./values.js";

const heads = ["Property", "Value", "Written by", "Before, and what it beat"];

/** Who wrote, where, when and why. */
export const byText = (write) => h("span", write.author !== undefined && [authorText(write.author), " "], nodeMark(write.node ?? nodeOf(write.dot)), write.timestamp && [" ", timeText(millis(write.timestamp))],
	write.context && h("span.quiet", " · ", isolated(write.context)), write.note && [" · ", h("q", write.note)]);

/** What a save did to an object. */
export const deed = (kind) => ({ insert: "made", update: "changed", delete: "deleted" }[kind] ?? kind);

/** What a save changed in an object. */
export const changeText = (change, type, labels) => h("ul.plain", Object.entries(change.values ?? {}).slice(0, 12).map(([name, value]) => h("li", name, ": ", brief(value, type(name), labels))),
	["add", "remove"].flatMap((key) => Object.entries(change[key] ?? {}).map(([name, uris]) => h("li", `${name}: ${key === "add" ? "linked" : "unlinked"} ${count([uris].flat().length, "object")}`))));

/**
 * The table of an object's values with blame. It is read after it is shown.
 * @param {string} [property] the one to mark
 */
export const blameTable = (view, schema, object, property) => later(async () => {
	const { entity } = object;
	const { properties } = await view.get(`${objectPath(objectOf(object.id))}/blame`);
	const toMany = new Set(schema.relationships(entity).filter((one) => one.toMany).map((one) => one.name));
	const told = properties.filter((one) => !toMany.has(one.property));
	const labels = await labelsOf(told.map((one) => one.value), view.signal);
	return table("Values and who wrote them", heads, told.map((one) => {
			const type = schema.type(entity, one.property);
			return [h(one.property === property ? "strong" : "span", one.property), whole(one.value, type, null, labels),
				one.write ? [byText(one.write), " ", dotText(one.write.dot)] : h("span.quiet", "nobody: it has its first value"), beside(one, type, labels)];
		}), "blame");
});

const beside = (one, type, labels) => [
	one.previous && h("div", "was ", brief(one.previous.value, type, labels), one.previous.write && [", ", byText(one.previous.write)]),
	(one.beat ?? []).map((beaten) => h("div", "beside it ", beaten.deleted ? "a delete" : h("strong", brief(beaten.value, type, labels)), ", ", byText(beaten.write),
		beaten.text && h("div.quiet", beaten.text), beaten.conflict && [" ", h("a", { href: conflictPlace(beaten.conflict) }, "Conflict")])),
	one.undo?.kind === "save" && undoButton(one.undo.transaction)];

/** A button that undoes a save. */
export const undoButton = (dot) => button("Undo this save…", () => undoSave(dot), { class: "small" });

// Undoes a whole save, after it has shown what that would write.
async function undoSave(dot) {
	const path = `/v1/saves/${encodeURIComponent(dot)}/undo`;
	try {
		const would = await post(path, { dryRun: true });
		const labels = await labelsOf([...would.objects, ...would.newer].map((one) => one.object));
		const form = await dialog("Undo this save?", [
			would.objects.length ? h("ul", would.objects.slice(0, 50).map((one) => h("li", objectLink(one.object, labels), one.kind === "delete" ? " goes" : one.kind === "insert" ? " comes back" : ": ",
				one.kind === "update" && Object.entries(one.properties ?? {}).map(([name, value], at) => [at > 0 && ", ", name, " gets ", brief(value, null, labels)])))) : h("p", "Nothing would change."),
			would.newer.length > 0 && h("p", `${count(would.newer.length, "object")} changed since. What was written since stays.`)], would.objects.length ? "Undo it" : null);
		if (!form || !would.objects.length || !(await askAuthor())) return;
		await post(path, { author: author(), context: "inspector" });
		notice("good", "The save was undone.");
	} catch (error) {
		notice("bad", error.message);
	}
}

/** What an object is related to: each relationship with the first of its objects. */
export const neighbours = (view, schema, object) => later(async () => {
	const relationships = schema.relationships(object.entity).map((one) => [one, [object.values[one.name]].flat().filter(Boolean)]);
	const labels = await labelsOf(relationships.flatMap(([, uris]) => uris.slice(0, 20)), view.signal);
	return relationships.length > 0 && [h("h3", "Related objects"), h("dl.row", relationships.map(([one, uris]) =>
		h("div", h("dt", `${one.name} (${one.toMany ? "many " : ""}${one.destination})`), h("dd", objectList(uris, 20, labels)))))];
});
