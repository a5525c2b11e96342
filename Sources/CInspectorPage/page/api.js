// Talking to the node that serves this page. Integers of 64 bits stay exact, as BigInt where a double cannot hold them.

import { dialog, field, h } from "./dom.js";

const tokenKey = "tributary.token";

// What to tell people about some errors; the others have messages that do.
const texts = {
	forbidden: "This token may only read. Deciding needs a token with the scope write.",
	sidesChanged: "Another value came while you looked. The page shows all of them now. Nothing was changed.",
	notFound: "This node can't tell. Its program is older than this page.",
	notSupported: "This node can't tell.",
};

/** An answer that is not what was asked for. */
export class Refusal extends Error {
	constructor(status, error) {
		const failures = Array.isArray(error?.failures) ? error.failures.slice(0, 5).map((one) => one.message).join(" ") : "";
		super(texts[error?.code] ?? (failures || (error?.message ?? `The node answered with status ${status}.`)));
		this.status = status;
		this.code = error?.code ?? "unknown";
		this.details = error ?? {};
	}
}

// Digits of a number as they came. Browsers without it show rounded numbers over 2 to the power of 53.
function exact(key, value, context) {
	if (typeof value === "number" && context?.source && /^-?\d+$/.test(context.source) && !Number.isSafeInteger(value)) return BigInt(context.source);
	return value;
}

/** JSON with exact integers. */
export function encode(value) {
	if (typeof value === "bigint") return String(value);
	if (Array.isArray(value)) return `[${value.map(encode).join(",")}]`;
	if (value && typeof value === "object") {
		return `{${Object.entries(value).filter(([, one]) => one !== undefined).map(([key, one]) => `${JSON.stringify(key)}:${encode(one)}`).join(",")}}`;
	}
	return JSON.stringify(value);
}

let asking = null;

/** Asks for a token, once for all requests that wait for it. */
function askToken(message) {
	asking ??= (async () => {
		const form = await dialog("This node wants a token", [
			h("p", "A token with the scope read sees everything. One with the scope write also decides."),
			message && h("p.bad-text", { role: "alert" }, message),
			field("Token", { name: "token", type: "password", required: true }),
			h("p.quiet", "The page keeps it until you close this tab."),
		], "Use this token");
		asking = null;
		const token = form?.elements.token.value.trim();
		// A header takes visible ASCII characters only.
		if (token) {
			sessionStorage.setItem(tokenKey, token.replace(/[^\x21-\x7e]/g, ""));
			dispatchEvent(new Event("tributary:token"));
		}
		return Boolean(token);
	})();
	return asking;
}

/** Forgets the token, so that the next request asks for one. */
export function forgetToken() {
	sessionStorage.removeItem(tokenKey);
}

/** Whether a token is kept. */
export const hasToken = () => sessionStorage.getItem(tokenKey) !== null;

/** Headers of a request. */
export function headers(more = {}) {
	const token = sessionStorage.getItem(tokenKey);
	return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function send(method, path, body, options = {}) {
	const asked = sessionStorage.getItem(tokenKey);
	let response;
	try {
		response = await fetch(path, {
			method,
			headers: headers(body === undefined ? {} : { "Content-Type": "application/json" }),
			body: body === undefined ? undefined : encode(body),
			signal: options.signal,
			cache: "no-store",
			credentials: "omit",
			redirect: "error",
			referrerPolicy: "no-referrer",
		});
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw new Refusal(0, { code: "unreachable", message: "The node does not answer. The page tries again when it is back." });
	}
	const text = await response.text();
	let answer = null;
	try {
		answer = JSON.parse(text, exact);
	} catch {
		if (response.ok) throw new Refusal(response.status, { code: "malformed", message: "The node's answer was cut off." });
	}
	if (response.status === 401 && !options.quiet) {
		// Another request may have got a token meanwhile.
		const isNew = sessionStorage.getItem(tokenKey) !== asked;
		if (isNew || await askToken(asked && "The node does not know this token.")) return send(method, path, body, options);
	}
	if (!response.ok) throw new Refusal(response.status, answer?.error);
	return answer;
}

/** Gets a path with parameters; those that are null or empty are left out. */
export function get(path, parameters = {}, options) {
	const query = Object.entries(parameters).filter(([, value]) => value != null && value !== "")
		.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
	return send("GET", query ? `${path}?${query}` : path, undefined, options);
}

/** The paths of an object and of a conflict. */
export const objectPath = ({ entity, id }) => `/v1/objects/${encodeURIComponent(entity)}/${id}`;
export const conflictPath = (id) => `/v1/conflicts/${encodeURIComponent(id)}`;

/** Posts a body. */
export const post = (path, body, options) => send("POST", path, body, options);
