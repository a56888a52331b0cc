// Addresses of pages: `#/tables/shop.orders?view=rows`. The hash, so that any gateway and any prefix serves one file.
import { useEffect, useState } from "../../vendor/preact.js";

/** A page's address: `link("tables", name, {view: "rows"})`; fields that are null or "" are left out. */
export function link(...parts) {
  const fields = typeof parts.at(-1) === "object" ? parts.pop() : {};
  const given = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const where = parts.map((part) => encodeURIComponent(part)).join("/");
  return `#/${where}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

/** Where a `link` of the API's (`tables/shop.orders`, `dead-letters?stream=shop`) leads: only ever to a page of ours. */
export function linkTo(where) {
  return `#/${String(where).replace(/^[#/]+/, "")}`;
}

/** The address that is shown: {parts, fields, text}. */
export function currentRoute(hash = location.hash) {
  const [where, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { parts: where.split("/").filter(Boolean).map(decoded), fields: Object.fromEntries(new URLSearchParams(query)), text: hash };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The current route, as it changes. */
export function useRoute() {
  const [route, setRoute] = useState(() => currentRoute());
  useEffect(() => {
    const changed = () => setRoute(currentRoute());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/** Go to an address; `replace` leaves no step to go back to (filters, sliders). */
export function go(address, { replace = false } = {}) {
  if (address === location.hash) return;
  if (!replace) {
    location.hash = address;
    return;
  }
  history.replaceState(null, "", address);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Change some fields of the current address. */
export function setFields(fields, { replace = true } = {}) {
  const route = currentRoute();
  go(link(...route.parts, { ...route.fields, ...fields }), { replace });
}
