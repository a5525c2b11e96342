// The model of the node, and what objects are called.

import { get, post } from "./api.js";
import { part } from "./dom.js";
import { objectOf } from "./values.js";

let model = null;

/** The model, which is read once; `again` after it may have changed. */
export async function loadModel(again = false) {
	if (!model || again) model = prepare(await get("/v1/model"));
	return model;
}

function prepare(answer) {
	const byName = new Map(answer.entities.map((entity) => [entity.name, entity]));
	const all = (entity, key) => {
		const found = [];
		// A bound: what comes from a node may be anything, also an endless line of parents.
		for (let at = entity, depth = 0; at && depth < 100; at = byName.get(at.parent), depth += 1) found.unshift(...(at[key] ?? []));
		return found;
	};
	return {
		entities: answer.entities,
		names: answer.entities.map((entity) => entity.name),
		entity: (name) => byName.get(name),
		attributes: (name) => all(byName.get(name), "attributes"),
		relationships: (name) => all(byName.get(name), "relationships"),
		type(name, property) {
			const attribute = this.attributes(name).find((one) => one.name === property);
			return attribute ? attribute.type : this.relationships(name).some((one) => one.name === property) ? "reference" : "string";
		},
		labelOf(name) {
			const texts = this.attributes(name).filter((one) => one.type === "string" && !one.transient).map((one) => one.name);
			return ["name", "title", "fullName", "displayName", "label", "subject", "lastName", "email", "code"].find((one) => texts.includes(one)) ?? texts[0] ?? null;
		},
	};
}

const known = new Map();

/** Forgets what objects are called: some were saved. */
export function forgetLabels(uris) {
	if (!uris) known.clear();
	else uris.forEach((uri) => known.delete(uri));
}

/**
 * What objects are called, by address. Those that are gone have no name.
 * @param {Array} uris addresses, among other things that are passed over
 */
export async function labelsOf(uris, signal) {
	const schema = await loadModel();
	const wanted = new Map();
	for (const uri of new Set([uris].flat(2))) {
		const object = objectOf(uri);
		if (!object || known.has(uri) || !schema.entity(object.entity) || !schema.labelOf(object.entity)) continue;
		if (!wanted.has(object.entity)) wanted.set(object.entity, []);
		wanted.get(object.entity).push(uri);
	}
	if (known.size > 20000) known.clear();
	for (const [entity, list] of wanted) {
		const label = schema.labelOf(entity);
		for (let at = 0; at < list.length; at += 200) {
			const part = list.slice(at, at + 200);
			try {
				const answer = await post("/v1/fetch", { entity, predicate: "SELF IN $these", substitutions: { these: part }, properties: [label] }, { signal });
				part.forEach((uri) => known.set(uri, null));
				for (const object of answer.objects) known.set(object.id, object.values[label]);
			} catch (error) {
				if (error.name === "AbortError") throw error;
				// A name is a help, so a list without names is better than none.
			}
		}
	}
	return { get: (uri) => known.get(uri) || null };
}
