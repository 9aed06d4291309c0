"""Words too common in English prose and in programs to be names unless they are marked as such."""

_PROGRAMS = """
abstract action actions add address alias all any api app append apply area args argument arguments array assert
async attribute attributes await base begin block body bool boolean branch break buffer build button byte bytes
cache call callback case cast catch change changes char check child children class classes clean clear click client
clone close code collection column columns command commit compare compile complete component config configure
connect connection const constant content context continue control convert copy core count create current cursor
data database date datetime debug decode default define del delete description detail details dict dictionary
directory disable display document domain done double download draft driver element else empty enable encode end
entry enum env environment equal error errors event events except exception exec execute exists exit export extend
extra fail failure false feature fetch field fields file files filter finally find finish first fix flag float flush
folder font for form format forward frame from func function functions generate generator get global group groups
handle handler hash head header headers help hidden history hook host html http icon id image import index info init
inner input insert instance int integer interface internal issue item items iter iterator job join json key keys
kind label lambda language last layer layout left length level lib library limit line lines link links list lists
load local location lock log logger login long loop main make manager map margin mark match max memory menu merge
message messages meta method methods min mock mode model models module modules move name names new next node nodes
none note null number object objects offset open operation option options order output override package page pages
param parameter parameters parent parse parser part patch path paths pattern pause permission point pop port
position post prefix present prev previous print private process profile program project property protected provider
public pull push put query queue raise random range read reader ready record records reduce ref reference refresh
register release reload remove render replace report request requests require reset resolve resource response result
results resume return reverse right role root route row rows rule rules run runner save scan schema scope screen
script search section select self send server service session set sets setting settings setup shape shared short
show shutdown sign size skip sleep sort source split stack stage start state static status step steps stop storage
store stream string strings struct style submit success suffix sum summary super support switch symbol sync system
table tables tag tags target task tasks template temp test tests text theme thread throw time timeout title today
toggle token top total trace track transaction transform true tuple type types undefined union unit unique unlock
update upload url usage use user users utils valid validate value values var variable version view views void wait
warning watch web while width with word work worker wrap write writer yield zip
"""
_PROSE = """
able about above across actual after again against ago ahead almost alone along already also although always among
another answer appear around ask available away back bad became because become been before behind being below best
better between beyond big both bring brought business but came can cannot careful certain chance clearly close
common company consider could country course day days deal decision decide did different does down during each early
easy either enough even ever every everything example examples face fact far few final following found four free
full further gave general give given goes going good great had half hand hard has have having here high him his home
house how however idea important include including indeed into its just keep kept kind know known large late later
least less let life like likely little look looking low made many may maybe mean means might minute moment money
month more most much must near nearly necessary need never nothing now off often old once one only other others our
out outside over overview own particular people perhaps person place plan possible power probably problem problems
public question questions quick quite rather real really reason recent right said same saw say says second see seem
seen several shall should side simple since small some something sometimes soon still story such sure take taken
talk tell ten than thank that the their them then there these they thing things think third this those though
thought three through thus today together told tomorrow too took toward tried true try turn two under until upon
used useful using usually very want was water way ways week well went were what when where whether which who whole
why will within without wonder words world would year years yes yesterday yet you young your
"""

COMMON_WORDS = frozenset((_PROGRAMS + _PROSE).split())
