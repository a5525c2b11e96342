// Blame: beside each value who wrote it, what it replaced, and what it beat; and what stands around an object.

import { cannotTell, explain, get, post } from "./api.js";
import { button, dialog, h, notice, replace, table } from "./dom.js";
import { askAuthor, author } from "./decide.js";
import { labelsOf } from "./schema.js";
import { authorText, brief, conflictPlace, count, dotText, isolated, millis, nodeMark, nodeOf, objectLink, objectOf, timeText, whole } from "./values.js";

const heads = ["Property", "Value", "Written by", "Before, and what it beat"];

/** A write in one line. */
export function writeText(write) {
  if (!write) return h("span.quiet", null, "nobody: it has its first value");
  return h("span", null, write.author !== undefined && [authorText(write.author), " at "], nodeMark(write.node ?? nodeOf(write.dot)), " ", write.timestamp ? timeText(millis(write.timestamp)) : null,
    write.context && h("span.quiet", null, " · ", isolated(write.context)), write.note && h("div", null, "Note: ", h("q", null, write.note)), " ", dotText(write.dot));
}

/**
 * The table of an object's values with blame. It is read after it is shown.
 * @param {string} [property] the one to mark
 */
export function blameTable(view, schema, object, property) {
  const place = h("div", null, h("p.quiet", null, "Asking who wrote each value…"));
  fillBlame(view, schema, object, property, place).catch((error) => {
    if (error.name !== "AbortError") replace(place, h("p.bad-text", null, explain(error)));
  });
  return place;
}

async function fillBlame(view, schema, object, property, place) {
  const { entity, id } = objectOf(object.id);
  const path = `/v1/objects/${encodeURIComponent(entity)}/${id}`;
  let properties;
  let isTold = true;
  try {
    properties = (await get(`${path}/blame`, {}, { signal: view.signal })).properties;
  } catch (error) {
    if (!cannotTell(error)) throw error;
    isTold = false;
    properties = fromVersions(await get(path, { versions: true }, { signal: view.signal }));
  }
  const toMany = new Set(schema.relationships(entity).filter((one) => one.toMany).map((one) => one.name));
  const told = properties.filter((one) => !toMany.has(one.property));
  const labels = await labelsOf(told.map((one) => one.value).filter((one) => objectOf(one)), view.signal);
  const rows = told.map((one) => [
    one.property === property ? h("strong", null, one.property) : one.property,
    whole(one.value, schema.type(entity, one.property), null, labels), writeText(one.write), beside(one, schema.type(entity, one.property), labels)]);
  replace(place, !isTold && h("p.quiet", null, "This node can't tell blame. It names the save that wrote each value, without its author."), table("Values and who wrote them", heads, rows, { class: "blame" }));
}

// An older program names the save of each value, and all values that wait beside it.
function fromVersions(answer) {
  return Object.entries(answer.values).map(([property, value]) => {
    const version = answer.versions?.[property];
    return { property, value, write: version && { dot: version.dot, node: nodeOf(version.dot), timestamp: version.timestamp },
      beat: (version?.siblings ?? []).filter((one) => one.dot !== version.dot).map((one) => ({ write: one, value: one.value })) };
  });
}

function beside(one, type, labels) {
  return h("div", null,
    one.previous && h("div", null, "was ", brief(one.previous.value, type, labels), one.previous.write && h("span.quiet", null, " by ", authorText(one.previous.write.author))),
    (one.beat ?? []).map((beaten) => h("div", null, "beside it ", beaten.deleted ? "a delete" : h("strong", null, brief(beaten.value, type, labels)), beaten.write?.author !== undefined && [" by ", authorText(beaten.write.author)], " at ", nodeMark(beaten.write?.node ?? nodeOf(beaten.write?.dot)),
      beaten.text && h("div.quiet", null, beaten.text), beaten.conflict && [" ", h("a", { href: conflictPlace(beaten.conflict) }, "Conflict")])),
    one.undo?.kind === "save" && button("Undo this save…", () => undoSave(one.undo.transaction), { class: "small" }));
}

/** Undoes a whole save, after it has shown what that would write. */
export async function undoSave(dot) {
  const path = `/v1/saves/${encodeURIComponent(dot)}/undo`;
  try {
    const would = await post(path, { dryRun: true });
    const labels = await labelsOf([...would.objects, ...would.newer].map((one) => one.object));
    const form = await dialog("Undo this save?", [
      would.objects.length ? h("ul", null, would.objects.slice(0, 50).map((one) => h("li", null, objectLink(one.object, labels), one.kind === "delete" ? " goes" : one.kind === "insert" ? " comes back" : ": ",
        one.kind === "update" && Object.entries(one.properties ?? {}).map(([name, value], at) => [at > 0 && ", ", name, " gets ", brief(value, null, labels)])))) : h("p", null, "Nothing would change."),
      would.newer.length > 0 && h("p", null, `${count(would.newer.length, "object")} changed since. What was written since stays.`)], would.objects.length ? "Undo it" : null);
    if (!form || !would.objects.length || !(await askAuthor())) return;
    await post(path, { author: author(), context: "inspector" });
    notice("good", "The save was undone.");
  } catch (error) {
    notice("bad", cannotTell(error) ? "This node can't undo a whole save yet." : explain(error));
  }
}

/** What an object is related to: each relationship with the first of its objects. */
export function neighbours(view, schema, object) {
  const place = h("div.neighbours");
  fillNeighbours(view, schema, object, place).catch(() => {});
  return place;
}

async function fillNeighbours(view, schema, object, place) {
  const relationships = schema.relationships(object.entity).map((one) => [one, [object.values[one.name]].flat().filter((uri) => objectOf(uri))]);
  const labels = await labelsOf(relationships.flatMap(([, uris]) => uris.slice(0, 20)), view.signal);
  if (!relationships.length) return;
  replace(place, h("h3", null, "Related objects"), h("dl.row", null, relationships.map(([one, uris]) => h("div", null, h("dt", null, one.name, " ", h("span.quiet", null, `${one.destination}${one.toMany ? ", many" : ""}`)),
    h("dd", null, uris.length ? h("ul.plain", null, uris.slice(0, 20).map((uri) => h("li", null, objectLink(uri, labels))), uris.length > 20 && h("li.quiet", null, `and ${uris.length - 20} more`)) : h("span.none", null, "none"))))));
}
