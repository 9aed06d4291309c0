"""Stop words for keywords, and compounds that count as one term."""

from __future__ import annotations

_FUNCTION = """
a about above across after again against all along already also although always am among an and another any anybody
anyone anything are around as at away back be became because become been before behind being below beside besides
between beyond both but by can cannot could did do does doing done down during each either else elsewhere ever every
everybody everyone everything except few for from further had has have having he hence her here hers him his how
however i if in inside instead into is it its itself just least less let like many may maybe me might mine more most
much must my myself near neither never no nobody none nor not nothing now of off often on once only onto or other
others otherwise our ours out outside over own per perhaps quite rather really same shall she should since so some
somebody someone something sometimes soon still such than that the their theirs them then there therefore these they
this those though through throughout thus to together too toward towards under unless until up upon us very via was we
well were what whatever when whenever where whereas wherever whether which while who whoever whole whom whose why will
with within without would yes yet you your yours aren couldn didn doesn don hadn hasn haven isn ll mustn shouldn ve
wasn weren won wouldn one two three four five six seven eight nine ten eleven twelve twenty thirty ninety hundred
thousand million first second third last next etc eg ie vs aber als am auch auf aus bei bis da damit dann das dass dem
den denn der des deshalb dessen die dies diese diesem diesen dieser dieses doch durch ein eine einem einen einer eines
er es für gegen hat haben ihr im ist ja jede jeder kann kein keine mehr mit muss nach nicht noch nur ob oder ohne sein
seine sich sie sind sollen sondern und uns unter vom von vor war weil wenn werden wie wir wird zu zum zur über
derselben demselben dasselbe dieselbe ainsi alors après au aussi autre aux avant avec ce cela ces cet cette chaque
comme dans de depuis des doit doivent du elle elles en entre est et être eux il ils la le les leur leurs lui mais même
ne nos notre nous ont ou où par pas peut plus pour quand que quel quelle qui sa sans se ses si sinon son sont sous sur
tout tous toute très un une vers vos votre vous al algo como con contra cuando del desde donde el ella ellos entonces
era esa ese eso esta este esto está están fue hasta hay las lo los más mi muy no nos nuestra nuestro o para pero por
porque que quien se ser si sin sobre su sus también tan tiene todo todos una unos y ya
"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())
"""English, German, French and Spanish words that are never keywords."""

_WEAK = """
able accept accepted access achieve actual actually add added adding adds adopt affect agree agreed allow allowed
allows answer appear apply ask asked avoid bad based became best better bit break breaks bring brings broke broken
brought built call called calling calls came care carries carry case cases cause caused causes certain change changed
changes check checked choose chose chosen class clear close closed code come comes complete completed consider contain
contains copy correct could create created creates current currently cut day days deal decide decided decision
decisions deliver delivers depend depends describe described detail details did different discover discovered
documented drop dropped due early easier easy edge edit empty end ends enough ensure entry especially event example
exist existed exists expect expected explain extra fact fail failed fails fall far fast field file files fill find
fine finish fix fixed follow followed following follows found full gave general generally get gets gets getting give
given gives go goes going gone good got great group grows half hand handed handle handles handling hands happen
happens hard held help helps here high hit hits hold holding holds hour hours idea implement implemented implements
important include included includes including initial instead introduce issue issues item items keep keeps kept kind
knew know known knows large larger late later lead leads leave leaves left less let lets level lie likely limit
limited line lines list lives load long longer longest look looked looks lot lower made main make makes making manner
matter mean means meant meet mention mentioned messages minute minutes miss missing month months move moved moves
moving ms name named names need needed needs new newer nightly normal note noted notes number numbers objective old
older open order others outcome page pages part particular parts pass passed people piece place please point points
possible prefer present primary probably problem problems proper properly provide provided provides put puts question
raise raised random rather reach reached reaches read reading reads ready real reason receive recent recommend reduce
refuse refuses related remain remember remove removed removes replace replaced report require required requires
respond response result results return returned returns right role rule rules run running runs said saw say says
seconds see seem seems seen send sends sent serious set sets setting several short show shown shows side similar
simple simply single size slow small smaller solve sort specific stable start started starts state stay stays step
still stop stopped stopping stops store stored stores sure switch take taken takes task tell tells thing things think
thought time times today told took total touch tried tries try trying turn turned turns twice type types understand
unlike unset update updated updates upgrade upgraded use used useful user users uses using usual usually value values
variable various verify version want wanted wants warn warning way ways week weekly weeks went will wish work worked
working works write writes writing written wrong year years kb mb gb tb january february march april june july august
september october november december monday tuesday wednesday thursday friday saturday sunday
"""
WEAK_WORDS = frozenset(_WEAK.split())
"""Words that are common in all technical texts: keywords only if there are no better ones."""

_COMPOUNDS = """
access-control access-token acceptance-criteria allow-list api-key audit-log background-job background-task backup-job
base-image batch-size binary-search black-box block-list blue-green branch-protection breaking-change build-cache
bulk-import bulk-insert bulk-update byte-order cache-key circuit-breaker code-review cold-start command-line
config-file connection-pool content-type continuous-integration custom-element custom-properties custom-property
data-model data-race data-set dark-mode dead-letter dead-lock default-value dependency-injection deny-list
design-system disk-quota distributed-lock domain-model double-entry due-date dry-run edge-case entry-point
environment-variable error-handling error-message event-loop event-sourcing exit-code exponential-backoff feature-flag
feature-flags file-system fixed-point floating-point foreign-key full-text garbage-collection happy-path hash-map
health-check hot-path http-only idempotency-key index-scan input-validation integration-test integration-tests
key-rotation lazy-loading learning-rate line-endings line-item line-items liveness-probe load-balancer load-balancing
load-test lock-file log-level machine-learning materialized-view memory-leak merge-conflict message-queue mobile-app
natural-language null-pointer object-storage open-source opt-in optimistic-locking page-size password-reset
path-traversal primary-key prepared-statement private-key production-data prompt-injection public-key pull-request
query-plan race-condition rate-limit rate-limiter rate-limiting rate-limits read-model read-only read-replica
readiness-probe release-notes request-id retry-policy reverse-proxy root-cause round-trip row-level schema-migration
screen-reader search-index security-review service-account service-worker session-cache shared-memory side-effect
signing-key single-page slow-query soft-delete source-map stack-trace state-machine static-analysis status-code
stored-procedure string-interpolation system-prompt tech-debt test-data text-index third-party thread-pool thread-safe
thread-safety time-zone time-zones top-level tree-shaking type-check type-hints unit-test unit-tests use-case
user-agent validation-set vector-search version-control warm-up web-socket white-list work-tree write-ahead
zero-downtime
"""
COMPOUNDS = frozenset((one, two) for one, _, two in (pair.partition("-") for pair in _COMPOUNDS.split()))
"""Pairs of words that are one technical term."""
