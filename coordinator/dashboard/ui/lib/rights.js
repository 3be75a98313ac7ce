// What the caller may do, from GET /me. A control is enabled exactly where the API accepts it.
import { signal } from "../base.js";
import { ApiError, request } from "./api.js";

/** me is the answer of GET /me; null until it came. */
export const me = signal(null);

let allowed = new Set();

/** loadMe asks who we are. Without an answer the error is thrown; 401 has shown the login page by then. */
export async function loadMe() {
  const { data } = await request("GET", "/me");
  setMe(data);
  return data;
}

/** setMe takes the answer of GET /me or POST /login. */
export function setMe(data) {
  allowed = new Set(data?.may ?? []);
  me.value = data;
}

/** may tells whether the caller may use a route of the API, written as the router does: may("POST /runs/:id/stop"). */
export function may(route) {
  return me.value !== null && allowed.has(route);
}

const verbs = { read: "read", run: "start and stop runs", admin: "do everything" };

/** refusal says why a route may not be used; undefined where it may. */
export function refusal(route) {
  if (!route || may(route)) return undefined;
  const who = me.value;
  if (!who) return "You are not logged in";
  const as = who.name ? `“${who.name}”` : "Your token";
  return `${as} has scope ${who.scope}, which may only ${verbs[who.scope] ?? who.scope}. This needs ${route}.`;
}

/** forbidden tells whether an error is a 403. */
export const forbidden = (err) => err instanceof ApiError && err.status === 403;
