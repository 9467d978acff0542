// The token, from the fragment of the address or from the form; stored for this tab only.

const KEY = "fedbandits token";
export const FRAGMENT = "#token=";

// Remove the token from the address, so that it is not copied, bookmarked or shown.
export function takeToken() {
  if (location.hash.startsWith(FRAGMENT)) {
    keepToken(decoded(location.hash.slice(FRAGMENT.length)));
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(KEY);
}

// Not URLSearchParams, which decodes a plus sign as a space.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // the text contains a literal per cent sign
  }
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token.trim());
  return token.trim();
}

export function forgetToken() {
  sessionStorage.removeItem(KEY);
}
