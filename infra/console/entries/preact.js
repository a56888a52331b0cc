// Preact, its hooks and htm as one module: the whole framework of the console.
import { h } from "preact";
import htm from "htm";

export { Component, Fragment, createContext, h, render } from "preact";
export { useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
export const html = htm.bind(h);
